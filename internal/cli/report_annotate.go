package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/github"
)

// sourceLine is where the verifier's log quotes the source: "; while (b < n) @ v3.bpf.c:12".
var sourceLine = regexp.MustCompile(`^; (.+) @ ([A-Za-z0-9_./+-]+):([0-9]{1,6})\s*$`)

// A finding is what an annotation tells: one benchmark or program, on all testbeds.
type finding struct {
	github.Annotation
	texts []string
	lines []bench.LineCount // that explain it, the best first
	// benchmark is looked up in the config of its suite where no line explains it;
	// empty: it is a program.
	suite, benchmark string
}

// findings are what regressed, the worst first.
func findings(reports []*gate.Report) []*finding {
	var all []*finding
	at := map[string]*finding{}
	add := func(x *gate.Report, title, benchmark, text string, lines []bench.LineCount, bad bool) {
		f := at[title]
		if f == nil {
			f = &finding{benchmark: benchmark, Annotation: github.Annotation{Title: title}}
			if len(x.Suites) > 0 {
				f.suite, f.benchmark = bench.SplitSuite(benchmark)
			}
			at[title] = f
			all = append(all, f)
		}
		f.Error = f.Error || bad
		f.lines = append(f.lines, lines...)
		if text != "" && !slices.Contains(f.texts, text) {
			f.texts = append(f.texts, text)
		}
	}
	for _, x := range reports {
		on := x.Testbed.Slug()
		for _, p := range x.Programs {
			if p.Outcome == bench.Accepted {
				continue
			}
			var lines []bench.LineCount
			for _, l := range p.LogTail { // the last is where it gave up
				if m := sourceLine.FindStringSubmatch(l); m != nil {
					n, _ := strconv.Atoi(m[3])
					lines = []bench.LineCount{{File: m[2], Line: n, Text: m[1]}}
				}
			}
			add(x, p.Program+" is "+string(p.Outcome), "", p.Reason, lines, x.Verdict == gate.Regressed)
		}
		for i := range x.Comparisons {
			if c := &x.Comparisons[i]; c.Judged && c.Verdict == gate.Regressed {
				add(x, c.Benchmark+" regressed", c.Benchmark, inWords(c)+" on "+on, c.Culprits(), true)
			}
		}
	}
	return all
}

// partOfTime is how much of the time a line takes, where somebody sampled it.
func partOfTime(l bench.LineCount) string {
	if l.Share <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f%% of head's time)", 100*min(1, l.Share))
}

// inWords is a row in a few: "latency +140.3% (limit +5%)".
func inWords(c *gate.Comparison) string {
	s := c.Measure
	switch {
	case c.Change != nil:
		s += fmt.Sprintf(" %+.1f%%", 100**c.Change)
	case c.Head != nil:
		s += " " + strconv.FormatFloat(*c.Head, 'g', 6, 64)
	}
	if c.Limit != "" {
		s += " (" + c.Limit + ")"
	}
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	return s
}

// sources prepares finding lines of the source; where nothing regressed, nobody will
// ask for any.
func (r *reporting) sources(ctx context.Context, j *judgement) *sources {
	s := &sources{r: r}
	p := r.event.Pull
	if p == nil || len(findings(j.reports)) == 0 {
		return s
	}
	var err error
	if s.changed, err = r.client.DiffLines(ctx, p.Number); err != nil {
		r.say("warning: %v", err)
	}
	return s
}

// annotate marks what regressed: at the line that explains it, best one that the pull
// request changes, else where the config asks for it.
func (r *reporting) annotate(ctx context.Context, j *judgement, src *sources) {
	if r.event.Name == "workflow_run" || r.getenv("GITHUB_ACTIONS") != "true" {
		return // it would stand at a commit of the default branch
	}
	asked := map[string]map[string]int{} // lines by file and benchmark
	var all []github.Annotation
	for _, f := range findings(j.reports) {
		for _, l := range f.lines {
			p, ok := src.find(ctx, l)
			if ok && (f.File == "" || src.changed[p.file][p.line]) {
				f.File, f.Line = p.file, p.line
			}
			if ok && src.changed[p.file][p.line] {
				f.texts = append(f.texts, "because of: "+l.Text+partOfTime(l))
				break
			}
		}
		if f.File == "" && f.benchmark != "" {
			name := j.base.file(f.suite)
			if asked[name] == nil {
				asked[name] = r.benchmarkLines(ctx, name)
			}
			if n := asked[name][f.benchmark]; n > 0 {
				f.File, f.Line = name, n
			}
		}
		f.Text = strings.Join(f.texts, "; ")
		all = append(all, f.Annotation)
	}
	github.Annotate(r.c.Stdout, all)
}

// benchmarkLines are the lines of head's config that ask for benchmarks.
func (r *reporting) benchmarkLines(ctx context.Context, name string) map[string]int {
	lines := map[string]int{}
	var config struct {
		Benchmarks yaml.Node `yaml:"benchmarks"`
	}
	src, err := r.client.File(ctx, name, r.event.HeadSHA)
	if err != nil || yaml.Unmarshal(src, &config) != nil || config.Benchmarks.Kind != yaml.MappingNode {
		return lines
	}
	for i := 0; i+1 < len(config.Benchmarks.Content); i += 2 {
		key := config.Benchmarks.Content[i]
		lines[key.Value] = key.Line
	}
	return lines
}
