package site

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

var hostile = []string{
	"", "main", "Main", "../../etc/passwd", `<script>alert(1)</script>`, `"onload="x`, "\x1b[31m", "a\x00b", strings.Repeat("ü", 500),
	"\xff\xfe", "{{.}}", "a/b", "a-b", "javascript:alert(1)", "\u202eevil",
}

// histories are of levels that change, and of names of strangers.
func histories(names []string) []History {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []History
	for n, name := range names {
		var runs []*bench.Run
		for i := range 40 {
			level := 100.0
			if i >= 33 {
				level = 120
			}
			res := func(measure string, v float64) bench.Result {
				return bench.Result{Benchmark: "p/" + name, Program: "p", Measure: measure, Samples: []bench.Sample{{Value: v}}}
			}
			runs = append(runs, &bench.Run{
				ID: fmt.Sprintf("run-%d", i), Time: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC),
				Revision: bench.Revision{Commit: fmt.Sprintf("%040x", i), Name: name, Branch: name},
				Results:  []bench.Result{res(bench.Latency, level+rnd.NormFloat64()), res(bench.Insns, 58)},
			})
		}
		all = append(all, History{Branch: name, Testbed: names[len(names)-1-n], Runs: len(runs), Series: gate.History(runs)})
	}
	return all
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			name, _ = filepath.Rel(dir, name)
			files[filepath.ToSlash(name)] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var links = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// Every link leads somewhere within the site, every name is text, and the same histories
// give the same files, over those of another site too.
func TestSite(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "site")
	if err := Write(dir, histories([]string{"old"}), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, histories(hostile), Options{Title: "<b>x", URL: "https://example.com/x"}); err != nil {
		t.Fatal(err)
	}
	files := read(t, dir)
	other := filepath.Join(above, "other")
	if err := Write(other, histories(hostile), Options{Title: "<b>x", URL: "https://example.com/x"}); err != nil {
		t.Fatal(err)
	}
	again := read(t, other)
	if want := 2*len(hostile) + len(hostile) + 4; len(files) != want || len(again) != want {
		t.Errorf("%d and %d files, want %d", len(files), len(again), want)
	}
	for name, text := range files {
		if again[name] != text {
			t.Errorf("%s differs", name)
		}
		if strings.ToLower(name) != name || len(path.Base(name)) > 100 {
			t.Errorf("a file named %q", name)
		}
		for _, bad := range []string{"<script", "onload=\"x", "\x1b", "\x00", "<b>x", "\u202e", "javascript:alert(1)\""} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		if strings.HasSuffix(name, ".svg") || strings.HasSuffix(name, ".atom") {
			d := xml.NewDecoder(strings.NewReader(text))
			for {
				if _, err := d.Token(); err != nil {
					if err.Error() != "EOF" {
						t.Errorf("%s: %v", name, err)
					}
					break
				}
			}
			continue
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if to != "" {
				target = path.Join(path.Dir(name), to)
			}
			there, ok := files[target]
			if !ok || anchor != "" && !strings.Contains(there, `id="`+anchor+`"`) {
				t.Errorf("%s links to %q", name, m[1])
			}
		}
	}
	for _, want := range []string{"Alerts", "regressed", "pass", "&#43;20", "p/&lt;script&gt;"} {
		if !strings.Contains(files["index.html"], want) {
			t.Errorf("the index does not say %q", want)
		}
	}
	if p := newView(histories(hostile[1:2])[0]).Pages[0]; !strings.Contains(string(p.Charts[0].Picture), ">2026-01-01</text>") || !strings.Contains(string(p.Charts[0].Picture), ">2026-02-09</text>") {
		t.Errorf("a picture from when to when? %s", p.Charts[0].Picture)
	}
	if feed := files["feed.atom"]; !strings.Contains(feed, `href="https://example.com/x/h/`) || strings.Count(feed, "<entry>") != len(hostile) {
		t.Errorf("feed %s", feed)
	}
	if found, _ := filepath.Glob(filepath.Join(above, "*")); len(found) != 2 {
		t.Errorf("beside the site: %v", found)
	}
}

// What is no site is left alone, and a link in one is not followed.
func TestOccupied(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, nil, Options{}); !errors.Is(err, ErrOccupied) {
		t.Errorf("%v, want ErrOccupied", err)
	}
	if found, _ := os.ReadDir(dir); len(found) != 1 {
		t.Errorf("it holds %v", found)
	}
	site, outside := filepath.Join(t.TempDir(), "site"), t.TempDir()
	if err := Write(site, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(site, "h")); err != nil {
		t.Skip(err)
	}
	if err := Write(site, histories([]string{"main"}), Options{}); err != nil {
		t.Fatal(err)
	}
	if found, _ := os.ReadDir(outside); len(found) > 0 {
		t.Errorf("written outside: %v", found)
	}
}

func TestStates(t *testing.T) {
	series := func(better bench.Better, exact bool, changes []gate.ChangePoint, x ...float64) *gate.Series {
		s := &gate.Series{Benchmark: "p", Measure: "latency", Unit: "ns", Better: better, Exact: exact, Changes: changes}
		for i, v := range x {
			s.Points = append(s.Points, gate.Point{Time: time.Unix(int64(i), 0), Value: v})
		}
		return s
	}
	flat := []float64{10, 11, 10, 9, 10, 11, 10, 9, 10, 11, 10, 9}
	for _, c := range []struct {
		name string
		s    *gate.Series
		want state
	}{
		{"few", series(bench.Lower, false, nil, 1, 2, 3), fewRuns},
		{"steady", series(bench.Lower, false, nil, append(flat, 10)...), steady},
		{"beyond", series(bench.Lower, false, nil, append(flat, 30)...), regressed},
		{"better", series(bench.Lower, false, nil, append(flat, 1)...), steady},
		{"less is worse", series(bench.Higher, false, nil, append(flat, 1)...), regressed},
		{"more is better", series(bench.Higher, false, nil, append(flat, 30)...), steady},
		{"exact", series(bench.Lower, true, []gate.ChangePoint{{At: 2, Worse: true}}, 1, 1, 2), regressed},
		{"exact and better", series(bench.Lower, true, []gate.ChangePoint{{At: 2}}, 2, 2, 1), steady},
		{"long ago", series(bench.Lower, true, []gate.ChangePoint{{At: 1, Worse: true}}, append([]float64{1}, flat...)...), steady},
		{"overflow", series(bench.Lower, false, nil, 1.7e308, -1.7e308, 1.7e308), fewRuns},
	} {
		if got := newChart(c.s); got.State != c.want {
			t.Errorf("%s: %v, want %v", c.name, got.State, c.want)
		}
	}
}

// A scale has no values below 0 where the series has none.
func TestScale(t *testing.T) {
	for _, values := range [][]float64{{1, 200}, {0, 0, 0}, {0.5, 0.5}} {
		s := &gate.Series{Benchmark: "p", Measure: bench.Latency, Unit: "ns"}
		for _, v := range values {
			s.Points = append(s.Points, gate.Point{Value: v})
		}
		picture := string(newChart(s).Picture)
		if !strings.Contains(picture, ">0 ns<") || strings.Contains(picture, ">-") {
			t.Errorf("%v: %s", values, picture)
		}
	}
}
