package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/store"
	"github.com/org/ebpf-bench-gate/stats"
)

// A chronicle is the series of one branch and testbed.
type chronicle struct {
	Branch  string        `json:"branch"`
	Testbed string        `json:"testbed"`
	Runs    int           `json:"runs"`
	Series  []gate.Series `json:"series"`
}

func (c Command) history() *cobra.Command {
	var dir, branch, testbed, measure, format string
	cmd := &cobra.Command{
		Use:   "history [BENCHMARK...]",
		Short: "List where stored runs changed, and draw them",
		Long: `History lists the change points of stored runs: between which commits a measure
changed, by how much, and how sure that is (E-divisive with a permutation test for
noisy measures; every change of an exact one). Series that changed are drawn, and
those of the benchmarks that are named; the others have a line each.`,
		Example: `  gate history
  gate history --branch main --measure latency fun_xdp/worst
  gate history --format json | jq '.[].series[] | select(.changes)'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("--format %s: expected one of text, json", format)
			}
			if _, ok := bench.LookupMeasure(measure); measure != "" && !ok {
				return usage("--measure %s is not a measure", measure)
			}
			spacious()
			s, err := c.openStore(cmd, dir)
			if err != nil {
				return err
			}
			defer s.Close()
			entries, problems, err := s.List(cmd.Context(), store.Filter{Branch: branch, Testbed: testbed})
			if err != nil {
				return unmeasured(err)
			}
			c.uncounted(problems)
			all := chronicles(entries)
			unknown := choose(all, args, measure)
			if format == "json" {
				if all == nil {
					all = []chronicle{}
				}
				e := json.NewEncoder(c.Stdout)
				e.SetIndent("", " ")
				return e.Encode(all)
			}
			if len(entries) == 0 {
				fmt.Fprintf(c.Stderr, "no runs in %s; gate run makes some\n", s)
				return nil
			}
			if len(unknown) > 0 {
				return usage("no stored run has %s", strings.Join(unknown, ", "))
			}
			columns := 80
			if n := width(c.Stdout); n > 0 {
				columns = min(n, 120)
			}
			for i, h := range all {
				if i > 0 {
					fmt.Fprintln(c.Stdout)
				}
				h.print(c.Stdout, columns, len(args) > 0)
			}
			return nil
		},
	}
	f := cmd.Flags()
	storeFlag(f, &dir)
	f.StringVar(&branch, "branch", "", "only runs of this branch")
	f.StringVar(&testbed, "testbed", "", "only runs of this testbed")
	f.StringVar(&measure, "measure", "", "only this measure")
	f.StringVar(&format, "format", "text", "text or json")
	return cmd
}

// spacious lets a command that reads a whole store and ends use memory for time, up to
// a limit: collecting garbage is a third of its work otherwise.
func spacious() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
}

// chronicles sorts runs by branch and testbed, which have no history in common.
func chronicles(entries []store.Entry) []chronicle {
	of := map[[2]string][]*store.Entry{}
	for i := range entries {
		e := &entries[i]
		key := [2]string{e.Revision.Branch, e.Testbed.Slug()}
		of[key] = append(of[key], e)
	}
	var all []chronicle
	for key, some := range of {
		all = append(all, chronicle{Branch: key[0], Testbed: key[1], Runs: len(some)})
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		group.Go(func() error {
			all[i].Series = gate.HistoryOf(store.Outlines(of[[2]string{all[i].Branch, all[i].Testbed}]))
			return nil
		})
	}
	_ = group.Wait()
	slices.SortFunc(all, func(a, b chronicle) int {
		return cmp.Or(strings.Compare(a.Branch, b.Branch), strings.Compare(a.Testbed, b.Testbed))
	})
	return all
}

// choose keeps the series of some benchmarks and of a measure, and returns the
// names that no series has.
func choose(all []chronicle, names []string, measure string) (unknown []string) {
	seen := map[string]bool{}
	for i := range all {
		all[i].Series = slices.DeleteFunc(all[i].Series, func(s gate.Series) bool {
			seen[s.Benchmark] = true
			return len(names) > 0 && !slices.Contains(names, s.Benchmark) || measure != "" && s.Measure != measure
		})
	}
	for _, n := range names {
		if !seen[n] {
			unknown = append(unknown, n)
		}
	}
	return unknown
}

func (h chronicle) print(w io.Writer, columns int, draw bool) {
	runs := "runs"
	if h.Runs == 1 {
		runs = "run"
	}
	fmt.Fprintf(w, "%s on %s, %d %s\n", plain(orDash(h.Branch)), plain(h.Testbed), h.Runs, runs)
	for _, s := range h.Series {
		if len(s.Changes) == 0 && !draw {
			x := points(s)
			fmt.Fprintf(w, "  %s %s: no change, %s\n", plain(s.Benchmark), s.Measure, amount(stats.Median(x), s.Unit))
			continue
		}
		fmt.Fprintf(w, "\n  %s %s (%s, %s is better)\n", plain(s.Benchmark), s.Measure, s.Unit, s.Better)
		for _, line := range chart(s, columns-4) {
			fmt.Fprintf(w, "  %s\n", line)
		}
		for _, c := range s.Changes {
			fmt.Fprintf(w, "  %s\n", changeLine(s, c))
		}
	}
}

func points(s gate.Series) []float64 {
	x := make([]float64, len(s.Points))
	for i, p := range s.Points {
		x[i] = p.Value
	}
	return x
}

// changeLine is one change in words: its range, size and confidence.
func changeLine(s gate.Series, c gate.ChangePoint) string {
	mark, size := "✓", fmt.Sprintf("%s to %s", amount(c.Before, s.Unit), amount(c.After, s.Unit))
	if c.Worse {
		mark = "✗"
	}
	if c.Change != nil {
		size += fmt.Sprintf(", %+.1f%%", 100**c.Change)
	}
	if i := c.Interval; i != nil {
		size += fmt.Sprintf(" [%+.1f, %+.1f]", 100*i.Low, 100*i.High)
		if i.Low <= 0 && i.High >= 0 {
			mark = "~" // the spread, rather than the level
		}
	}
	sure := "exact"
	if !s.Exact {
		sure = fmt.Sprintf("confidence %.1f%%", 100*(1-c.P))
	}
	return fmt.Sprintf("%s %s..%s  %s  %s  %s", mark, commit(c.From), commit(c.To), s.Points[c.At].Time.UTC().Format("2006-01-02"), size, sure)
}

// commit is a revision as git takes it in a range.
func commit(r bench.Revision) string {
	if len(r.Commit) > 12 {
		return r.Commit[:12]
	}
	return plain(orDash(cmp.Or(r.Commit, r.Name)))
}

// chart draws a series: time to the right, a dot for each run (or for the median of
// several, where there are more than columns), a line at each change.
func chart(s gate.Series, columns int) []string {
	const height = 8
	x := points(s)
	low, high := slices.Min(x), slices.Max(x)
	labels := []string{amount(high, s.Unit), amount(low, s.Unit)}
	margin := max(len([]rune(labels[0])), len([]rune(labels[1])))
	columns = max(min(columns-margin-2, len(x)), 1)
	grid := make([][]rune, height)
	for i := range grid {
		grid[i] = slices.Repeat([]rune{' '}, columns)
	}
	column := func(i int) int { return i * columns / len(x) }
	for _, c := range s.Changes {
		for y := range grid {
			grid[y][column(c.At)] = '│'
		}
	}
	for at := range columns {
		from, to := (at*len(x)+columns-1)/columns, ((at+1)*len(x)+columns-1)/columns
		if from >= to {
			continue
		}
		y := height / 2 // where all are the same
		if high > low {
			share := (stats.Median(x[from:to]) - low) / (high - low)
			if math.IsNaN(share) { // the range overflows
				share = 0
			}
			y = height - 1 - int(math.Round(share*(height-1)))
		}
		grid[y][at] = '•'
	}
	lines := make([]string, height)
	for y := range grid {
		label := ""
		switch y {
		case 0:
			label = labels[0]
		case height - 1:
			label = labels[1]
		}
		pad := strings.Repeat(" ", margin-len([]rune(label)))
		lines[y] = strings.TrimRight(pad+label+" ┤"+string(grid[y]), " ")
	}
	return lines
}

// amount is a number with four digits and its unit.
func amount(v float64, unit string) string {
	n := strconv.FormatFloat(v, 'g', 4, 64)
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		n = strconv.FormatFloat(v, 'f', 0, 64)
	}
	if unit == "" || unit == "count" {
		return n
	}
	return n + " " + unit
}

// plain takes out what would act on a terminal: names come from stored files.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
