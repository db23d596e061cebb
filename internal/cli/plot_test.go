package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/plot/svg"
)

// TestPlotFile holds that every name makes one file of its own, in its directory.
func TestPlotFile(t *testing.T) {
	long := strings.Repeat("x", 400)
	seen := map[string]string{}
	for _, benchmark := range []string{"a", "A", "a/b", "a.b", "a%2fb", "../../etc/passwd", "..", ".", "", "con", "a b", "a\x00b", "a\nb", "ä", long, long + "y", long + "%"} {
		for _, measure := range []string{"latency", "count[b]", "../x"} {
			name := plotFile(&gate.Comparison{Benchmark: benchmark, Measure: measure}, svg.Samples)
			if filepath.Base(name) != name || len(name) > 200 || name[0] == '.' && benchmark != "" || strings.ToLower(name) != name || !filepath.IsLocal(name) {
				t.Errorf("%q %q: the file %q", benchmark, measure, name)
			}
			if was, ok := seen[name]; ok {
				t.Errorf("%q and %q %q are both %q", was, benchmark, measure, name)
			}
			seen[name] = benchmark + " " + measure
		}
	}
	if got := plotFile(&gate.Comparison{Benchmark: "fun_xdp/worst", Measure: "latency"}, svg.Rounds); got != "fun_xdp%2fworst.latency.rounds.svg" {
		t.Error(got)
	}
}

func TestMatchesOne(t *testing.T) {
	for _, tt := range []struct {
		globs, name string
		want        bool
	}{
		{"", "a/b", true}, {"a/b", "a/b", true}, {"a/*", "a/b", true}, {"a", "a/b", true}, {"a*", "ab/c", true}, {"b", "a/b", false},
		{"count[x]", "count[x]", true}, {"x,a/b", "a/b", true}, {"*", "a/b/c", true}, {"a/*", "a", false},
	} {
		var globs []string
		if tt.globs != "" {
			globs = strings.Split(tt.globs, ",")
		}
		if got := matchesOne(globs, tt.name); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.globs, tt.name, got)
		}
	}
}
