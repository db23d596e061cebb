package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/store"
)

const (
	maxReport  = 50 << 20 // bytes of JSON of a report
	maxReports = 1024     // of one merge
)

// merge makes one report of many: of files that --format json wrote or gate report
// left, and of the bundles of runs that measuring jobs leave, which are judged here.
// An argument may be NAME=FILE, and then NAME says in the report whose it is.
func (c Command) merge(args []string, config string, out *output) error {
	if err := out.check(); err != nil {
		return err
	}
	of, err := policies(config, out)
	if err != nil {
		return err
	}
	var all []judged
	missing := 0
	for _, arg := range args {
		name, file := "", arg
		if before, after, ok := strings.Cut(arg, "="); ok {
			if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
				name, file = before, after
			}
		}
		some, without, err := readReports(file, of)
		if err != nil {
			return &exitError{code: exitUnmeasured, err: fmt.Errorf("%s: %w", file, err), hint: "gate compare --format json writes a report"}
		}
		for _, j := range some {
			if name != "" {
				j.report.Testbed.Name = name + ": " + j.report.Testbed.Slug()
			}
		}
		all = append(all, some...)
		missing += without
		if len(all) > maxReports {
			return usage("more than %d reports", maxReports)
		}
	}
	switch out.format {
	case "bmf", "benchfmt":
		if slices.ContainsFunc(all, func(j judged) bool { return j.head == nil }) {
			return usage("--format %s: a report holds no samples; merge runs, or gate export", out.format)
		}
	}
	if err := out.put(c, all, missing, 0); err != nil {
		return err
	}
	worst := exitPass
	if missing > 0 {
		worst = exitUnmeasured
	}
	for _, j := range all {
		if code := codeOf(out.exit(j.report)); severe(code) > severe(worst) {
			worst = code
		}
	}
	if worst == exitPass {
		return nil
	}
	return verdictError{worst}
}

// readReports reads the reports of a file, and how many it says that are missing.
func readReports(file string, of func(suite string) gate.Policy) (all []judged, missing int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxReport {
		return nil, 0, fmt.Errorf("more than %d MB", maxReport>>20)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		b, err := store.DecodeBundle(data)
		if err != nil {
			return nil, 0, err
		}
		if b.Head == nil {
			return nil, 0, errors.New("a history, and no measurement")
		}
		if b.Base == nil {
			return []judged{{report: gate.CompareHistorySuites(b.Head, nil, of), head: b.Head}}, 0, nil
		}
		return []judged{{report: gate.CompareSuites(b.Base, b.Head, of), base: b.Base, head: b.Head}}, 0, nil
	}
	var whole struct {
		Verdict *gate.Verdict  `json:"verdict"`
		Reports []*gate.Report `json:"reports"`
		// Comparisons are what a report has that stands alone.
		Comparisons json.RawMessage `json:"comparisons"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, 0, err
	}
	if whole.Verdict == nil || whole.Comparisons == nil && whole.Reports == nil {
		return nil, 0, errors.New("not a report of gate")
	}
	if whole.Comparisons != nil {
		r := &gate.Report{}
		if err := json.Unmarshal(data, r); err != nil {
			return nil, 0, err
		}
		whole.Reports = []*gate.Report{r}
	}
	for _, r := range whole.Reports {
		if r == nil {
			return nil, 0, errors.New("an empty report")
		}
		if err := coherent(r); err != nil {
			return nil, 0, err
		}
		all = append(all, judged{report: r})
	}
	// A whole that is worse than its parts lacks one.
	if of, _ := gate.Overall(reportsOf(all), 0); *whole.Verdict != of && (len(all) == 0 || *whole.Verdict == gate.Inconclusive) {
		missing = 1
	}
	return all, missing, nil
}

// coherent tells that a report does not pass with rows that do not.
func coherent(r *gate.Report) error {
	if r.Verdict != gate.Pass && r.Verdict != gate.Improved {
		return nil
	}
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Judged && (c.Verdict == gate.Regressed || c.Verdict == gate.Inconclusive || c.Verdict == gate.Missing) {
			return fmt.Errorf("it says %s, and that %.80q is %s", r.Verdict, c.Benchmark, c.Verdict)
		}
	}
	return nil
}
