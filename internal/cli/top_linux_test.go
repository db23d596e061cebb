package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

func TestTopTable(t *testing.T) {
	long := strings.Repeat("long_", 30)
	costs := []programs.Cost{
		{Info: programs.Info{ID: 7, Type: "xdp", Name: "idle"}, Over: time.Second},
		{Info: programs.Info{ID: 8, Type: "xdp", Name: "busy"}, Over: 2 * time.Second, Runs: 1000, Time: time.Millisecond},
		{Info: programs.Info{ID: 9, Type: "ext", Tag: "0123456789abcdef"}, Over: time.Second, Uncounted: true},
		{
			Info: programs.Info{ID: 10, Type: "tracepoint", Name: long}, Over: time.Second, Runs: 10, Time: time.Second,
			Holders: []programs.Holder{{PID: 1, Command: "a"}, {PID: 2, Command: "b"}, {PID: 3, Command: "c"}, {PID: 4, Command: "d"}, {PID: 5, Command: "e"}},
		},
	}
	for _, tt := range []struct {
		name string
		f    topFlags
		want string // ids, in order
	}{
		{"by cost", topFlags{sort: "cpu"}, "10 8 7 9"},
		{"by runs", topFlags{sort: "runs"}, "8 10 7 9"},
		{"by time of a run", topFlags{sort: "ns"}, "10 8 7 9"},
		{"by name", topFlags{sort: "name"}, "9 8 7 10"},
		{"by type", topFlags{sort: "type"}, "9 10 7 8"},
		{"by id", topFlags{sort: "id"}, "7 8 9 10"},
		{"of a type", topFlags{sort: "id", types: []string{"ext", "xdp"}}, "7 8 9"},
		{"of a name", topFlags{sort: "id", names: []string{"b*", "idle"}}, "7 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTopTable(tt.f, costs, time.Now(), time.Second)
			var ids []string
			for _, p := range table.Programs {
				ids = append(ids, p.cells()[0])
			}
			if got := strings.Join(ids, " "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	table := newTopTable(topFlags{sort: "cpu"}, costs, time.Now(), time.Second)
	busy := table.Programs[1]
	if busy.Runs != 500 || busy.perRun() != 1000 || busy.CPU < 0.0499 || busy.CPU > 0.0501 {
		t.Errorf("%+v", busy)
	}
	var b strings.Builder
	if err := table.text(&b, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"4 of 4 programs, 2 ran in 1.0 s: 100.0% of a CPU",
		"10  tracepoint    10.0  100000000  100.0%  " + long + "  a 1, b 2, c 3, 2 more\n",
		" 7  xdp              -          -       -  idle\n",
		" 9  ext              -          -       -  tag 0123456789abcdef (not counted)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	// On a terminal no line is longer than it, and none too many.
	for _, size := range [][2]int{{80, 24}, {60, 4}, {20, 3}} {
		b.Reset()
		if err := table.text(&b, size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) > size[1] {
			t.Errorf("%d lines in a terminal of %d", len(lines), size[1])
		}
		for _, l := range lines {
			if len(l) > size[0] {
				t.Errorf("%d columns in a terminal of %d: %s", len(l), size[0], l)
			}
		}
		if size[0] == 80 && !strings.Contains(b.String(), "  a 1, b 2") {
			t.Errorf("the long name hides who holds it:\n%s", b.String())
		}
	}
}

func TestTopFlags(t *testing.T) {
	good := topFlags{sort: "cpu", format: "text", interval: time.Second}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func(*topFlags){
		func(f *topFlags) { f.sort = "cost" },
		func(f *topFlags) { f.format = "markdown" },
		func(f *topFlags) { f.interval = time.Millisecond },
		func(f *topFlags) { f.interval = 2 * time.Hour },
		func(f *topFlags) { f.names = []string{"[a"} },
		func(f *topFlags) { f.pids = []int{1 << 22} },
		func(f *topFlags) { f.pids = []int{0} },
		func(f *topFlags) { f.pids = []int{-1} },
	} {
		f := good
		spoil(&f)
		if f.check() == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}
