//go:build linux

package programs

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestParseUsage(t *testing.T) {
	const whole = "pos:\t0\nflags:\t02000002\nprog_type:\t6\nrun_time_ns:\t12345678901\nrun_cnt:\t42\nrecursion_misses:\t3\nverified_insns:\t7\n"
	for _, tt := range []struct {
		name, text string
		want       Usage
		err        string
	}{
		{"whole", whole, Usage{12345678901, 42, 3}, ""},
		{"before 5.12", strings.ReplaceAll(whole, "recursion_misses:\t3\n", ""), Usage{12345678901, 42, 0}, ""},
		{"no newline at the end", "run_time_ns:\t1\nrun_cnt:\t2", Usage{1, 2, 0}, ""},
		{"empty", "", Usage{}, "no run_time_ns"},
		{"a map", "map_type:\t1\nkey_size:\t4\n", Usage{}, "no run_time_ns"},
		{"half", "run_cnt:\t2\nrecursion_misses:\t1\n", Usage{}, "no run_time_ns"},
		{"no number", "run_time_ns:\t1\nrun_cnt:\t-2\n", Usage{}, "not a number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseUsage([]byte(tt.text))
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	a, b := Usage{1000, 10, 1}, Usage{4000, 30, 2}
	d := b.Sub(a)
	if d != (Usage{3000, 20, 1}) || d.PerRun() != 150 {
		t.Errorf("%+v, %g ns a run", d, d.PerRun())
	}
	if a.Add(d) != b {
		t.Errorf("%+v", a.Add(d))
	}
	if got := (Usage{}).PerRun(); got != 0 {
		t.Errorf("no runs take %g ns", got)
	}
}

func TestMeter(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats)
	testkernel.NoLeaks(t)
	p := empty(t, ebpf.XDP)
	stats, err := EnableStats()
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	const runs = 7
	for range runs {
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := NewMeter(p).Agreed()
	if err != nil {
		t.Fatal(err)
	}
	if u.Runs != runs || u.NS == 0 || u.Misses != 0 {
		t.Errorf("%+v after %d runs", u, runs)
	}
}

// A meter must not take another file for a program.
func TestMeterOfNoProgram(t *testing.T) {
	m := &Meter{path: "/proc/self/fdinfo/0"}
	if u, err := m.Read(); err == nil {
		t.Errorf("standard input has %+v", u)
	}
	m.path = "/proc/self/fdinfo/1000000"
	if u, err := m.Read(); err == nil {
		t.Errorf("a closed file has %+v", u)
	}
}
