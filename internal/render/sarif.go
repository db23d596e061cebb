package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// SARIFOptions of [SARIF].
type SARIFOptions struct {
	// Version of gate.
	Version string
	// File is the file of a checkout that a compiler's name of it means; nil: that name.
	File func(suite, name string) string
	// ConfigOf is that of [MarkdownOptions], of which a row is shown that no line
	// explains; nil: such rows are at no file.
	ConfigOf func(suite string) string
}

// SARIF writes reports in the Static Analysis Results Interchange Format 2.1.0, a run
// a testbed: a result for each judged comparison that regressed (level error) or that
// the policy warns of (level warning), at the line of the source that explains it where
// one does, and for each program that the verifier no longer accepts. What could not be
// decided is no finding: it is a notification of the run, and a run that could not
// be made says that it was not successful.
//
// Note: written with structures of our own, since libraries of it write all that the
// format has, which is some hundred types; the test validates by the schema.
func SARIF(w io.Writer, reports []*gate.Report, missing int, o SARIFOptions) error {
	log := sarifLog{Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{}}
	names := bedNames(reports)
	for i, r := range reports {
		log.Runs = append(log.Runs, sarifRunOf(names[i], r, o))
	}
	if missing > 0 || len(reports) == 0 {
		b := newSarifRun("not measured", o)
		b.run.Invocations[0].Successful = false
		b.notify("error", fmt.Sprintf("%s could not be measured", english.Count(max(missing, 1), "testbed")))
		log.Runs = append(log.Runs, b.run)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(log)
}

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Automation  sarifAutomation   `json:"automationDetails"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version,omitempty"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID         string         `json:"id"`
	Short      sarifText      `json:"shortDescription"`
	Full       sarifText      `json:"fullDescription"`
	Default    sarifConfig    `json:"defaultConfiguration"`
	Properties map[string]any `json:"properties"`
}

type sarifConfig struct {
	Level string `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifAutomation struct {
	// ID ends with a slash: what stands before it is the category by which GitHub
	// keeps the results of several testbeds apart.
	ID string `json:"id"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string    `json:"level"`
	Message sarifText `json:"message"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Properties   map[string]any    `json:"properties,omitempty"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	Message  *sarifText     `json:"message,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int        `json:"startLine"`
	Snippet   *sarifText `json:"snippet,omitempty"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

// A sarifBuilder makes a run.
type sarifBuilder struct {
	run    sarifRun
	bed    string
	suites bool // names begin with their suite
	o      SARIFOptions
}

func newSarifRun(bed string, o SARIFOptions) *sarifBuilder {
	b := &sarifBuilder{bed: bed, o: o}
	b.run.Tool.Driver = sarifDriver{Name: "ebpf-bench-gate", Version: o.Version, InformationURI: "https://github.com/org/ebpf-bench-gate", Rules: []sarifRule{}}
	b.run.Automation.ID = "ebpf-bench-gate/" + bed + "/"
	b.run.Invocations = []sarifInvocation{{Successful: true}}
	b.run.Results = []sarifResult{}
	return b
}

func sarifRunOf(bed string, r *gate.Report, o SARIFOptions) sarifRun {
	b := newSarifRun(bed, o)
	b.suites = len(r.Suites) > 0
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		name := clean(c.Benchmark) + " " + clean(c.Measure)
		switch {
		case c.Judged && c.Verdict == gate.Regressed:
			b.comparison(c, "error", name+" regressed: ")
		case c.Warn:
			b.comparison(c, "warning", name+" is near its limit: ")
		case c.Judged && (c.Verdict == gate.Inconclusive || c.Verdict == gate.Missing):
			b.notify("warning", name+" is "+c.Verdict.String()+": "+inWords(c))
		}
	}
	for _, p := range r.Programs {
		switch r.Answer(p) {
		case gate.Regressed:
			b.program(p)
		case gate.Inconclusive:
			b.notify("error", clean(p.Program)+" is "+programInWords(p))
		}
	}
	for _, name := range required(r) {
		b.run.Invocations[0].Successful = false
		b.notify("error", name+" was asked for and not measured")
	}
	return b.run
}

func (b *sarifBuilder) notify(level, text string) {
	in := &b.run.Invocations[0]
	in.Notifications = append(in.Notifications, sarifNotification{level, sarifText{text}})
}

// rule is the index of the rule of a measure, or of the verifier.
func (b *sarifBuilder) rule(id, short, full string) int {
	rules := &b.run.Tool.Driver.Rules
	i := slices.IndexFunc(*rules, func(r sarifRule) bool { return r.ID == id })
	if i >= 0 {
		return i
	}
	*rules = append(*rules, sarifRule{
		ID: id, Short: sarifText{short}, Full: sarifText{full}, Default: sarifConfig{"error"},
		Properties: map[string]any{"tags": []string{"performance", "ebpf"}},
	})
	return len(*rules) - 1
}

func (b *sarifBuilder) comparison(c *gate.Comparison, level, lead string) {
	measure := clean(c.Measure)
	full := measure
	if m, ok := bench.LookupMeasure(c.Measure); ok {
		full = measure + ": " + m.Help
	}
	res := sarifResult{
		RuleID: measure, RuleIndex: b.rule(measure, measure+" regressed", full), Level: level,
		Message:      sarifText{lead + inWords(c)},
		Fingerprints: b.fingerprint(c.Benchmark, c.Measure),
		Properties:   map[string]any{"unit": clean(c.Unit), "verdict": c.Verdict.String()},
	}
	for name, x := range map[string]*float64{"base": c.Base, "head": c.Head, "change": c.Change, "margin": c.Margin} {
		if x != nil {
			res.Properties[name] = *x
		}
	}
	if c.Interval != nil {
		res.Properties["interval"] = c.Interval
	}
	suite := ""
	if b.suites {
		suite, _ = bench.SplitSuite(c.Benchmark)
	}
	logical := []sarifLogical{{clean(c.Benchmark), "member"}}
	for _, l := range reasons(c) {
		if l.File == "" {
			continue
		}
		loc := b.line(suite, l.LineCount)
		loc.Message = &sarifText{clean(l.does)}
		if len(res.Locations) == 0 {
			loc.Logical = logical
		}
		res.Locations = append(res.Locations, loc)
	}
	if len(res.Locations) == 0 {
		loc := sarifLocation{Logical: logical}
		if b.o.ConfigOf != nil {
			loc.Physical = &sarifPhysical{Artifact: sarifArtifact{uri(b.o.ConfigOf(suite))}, Region: sarifRegion{StartLine: 1}}
		}
		res.Locations = []sarifLocation{loc}
	}
	b.run.Results = append(b.run.Results, res)
}

func (b *sarifBuilder) line(suite string, l bench.LineCount) sarifLocation {
	file := l.File
	if b.o.File != nil {
		file = b.o.File(suite, file)
	}
	return sarifLocation{Physical: &sarifPhysical{
		Artifact: sarifArtifact{uri(file)}, Region: sarifRegion{max(1, l.Line), &sarifText{clean(l.Text)}},
	}}
}

func (b *sarifBuilder) program(p bench.ProgramResult) {
	const id = "verifier"
	b.run.Results = append(b.run.Results, sarifResult{
		RuleID: id, RuleIndex: b.rule(id, "the verifier rejects the program", "the kernel's verifier rejects a program that it accepted before"),
		Level: "error", Message: sarifText{clean(p.Program) + " is " + programInWords(p)},
		Locations:    []sarifLocation{{Logical: []sarifLogical{{clean(p.Program), "function"}}}},
		Fingerprints: b.fingerprint(p.Program, id),
	})
}

// fingerprint is by what the result of the next commit is known to be the same.
func (b *sarifBuilder) fingerprint(name, measure string) map[string]string {
	sum := sha256.Sum256([]byte(strings.Join([]string{b.bed, name, measure}, "\x00")))
	return map[string]string{"comparison/v1": hex.EncodeToString(sum[:16])}
}

// uri is a file as SARIF has it: relative where the file is.
func uri(file string) string {
	file = path.Clean(strings.ReplaceAll(clean(file), `\`, "/"))
	u := url.URL{Path: file}
	if path.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}
