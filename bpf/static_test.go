//go:build linux

package bpf

import (
	"encoding/json"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestParseStats(t *testing.T) {
	for _, tt := range []struct {
		name, log string
		want      map[string]float64
		err       string
	}{
		{
			name: "6.18",
			log:  "verification time 182 usec\nstack depth 40+104\nprocessed 229 insns (limit 1000000) max_states_per_insn 1 total_states 14 peak_states 13 mark_read 3\n",
			want: map[string]float64{bench.VerificationUS: 182, bench.StackDepth: 144, bench.VerifiedInsns: 229, bench.TotalStates: 14, bench.PeakStates: 13},
		},
		{
			name: "one program without a stack",
			log:  "verification time 5 usec\nstack depth 0\nprocessed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0",
			want: map[string]float64{bench.VerificationUS: 5, bench.StackDepth: 0, bench.VerifiedInsns: 2, bench.TotalStates: 0, bench.PeakStates: 0},
		},
		{
			name: "before 5.2: no states",
			log:  "processed 31 insns (limit 131072), stack depth 8\n",
			want: map[string]float64{bench.VerifiedInsns: 31},
		},
		{
			name: "later: the deepest chain too",
			log:  "stack depth 32+64 max 96\nstack depth max 96\nprocessed 3 insns (limit 1000000) new_word 7 peak_states 1",
			want: map[string]float64{bench.StackDepth: 96, bench.VerifiedInsns: 3, bench.PeakStates: 1},
		},
		{
			name: "among other lines",
			log:  "func#0 @0\n0: R1=ctx()\nprocessed by hand\nprocessed 4 insns (limit 1000000)\n",
			want: map[string]float64{bench.VerifiedInsns: 4},
		},
		{name: "empty", want: map[string]float64{}},
		{name: "torn number", log: "stack depth 32+x\n", err: `line "stack depth 32+x"`},
		{name: "negative", log: "processed -4 insns (limit 1000000)", err: "processed -4"},
		{name: "overflow", log: "verification time 99999999999999999999 usec", err: "out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStats(tt.log)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || !maps.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestStatic holds the static measures of the distribution's programs against
// what bpftool reads of the same programs.
func TestStatic(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.BPFTool, testkernel.XDPTools)
	testkernel.NoLeaks(t)
	tested := 0
	for _, path := range distributionObjects(t) {
		o, err := OpenObject(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range o.Programs() {
			if o.Type(name) != "xdp" {
				continue
			}
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) { compareStatic(t, o, name) })
			tested++
		}
	}
	if tested < 10 {
		t.Errorf("only %d programs were looked at", tested)
	}
}

func compareStatic(t *testing.T, o *Object, name string) {
	l, err := o.Load(name, LoadOptions{Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	results, err := Static(l)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, r := range results {
		if r.Benchmark != name || r.Program != name || r.Kind != bench.Static || len(r.Samples) != 1 || r.Samples[0].Round != 0 {
			t.Errorf("%+v", r)
		}
		got[r.Measure] = r.Samples[0].Value
	}
	for _, m := range bench.Measures() {
		if _, ok := got[m.Name]; ok != m.Static {
			t.Errorf("measure %s present: %v, static: %v", m.Name, ok, m.Static)
		}
	}

	info, err := l.Program.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	out, err := exec.Command("bpftool", "prog", "show", "id", strconv.Itoa(int(id)), "-j").Output()
	if err != nil {
		t.Fatal(err)
	}
	var show struct {
		Xlated  float64 `json:"bytes_xlated"`
		Jited   float64 `json:"bytes_jited"`
		Memlock float64 `json:"bytes_memlock"`
	}
	if err := json.Unmarshal(out, &show); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if show.Xlated == 0 || show.Jited == 0 || show.Memlock == 0 {
		t.Fatalf("bpftool tells nothing: %s", out)
	}
	for _, tt := range []struct {
		measure string
		want    float64
	}{
		{bench.XlatedInsns, show.Xlated / 8},
		{bench.JitedBytes, show.Jited},
		{bench.Memlock, show.Memlock},
	} {
		if got[tt.measure] != tt.want {
			t.Errorf("%s %v, bpftool says %v", tt.measure, got[tt.measure], tt.want)
		}
	}
	if n, ok := info.VerifiedInstructions(); ok && float64(n) != got[bench.VerifiedInsns] {
		t.Errorf("verified_insns %v, program info says %d", got[bench.VerifiedInsns], n)
	}
	if v := got[bench.VerificationUS]; v <= 0 || v > 60e6 || v != math.Trunc(v) {
		t.Errorf("verification_time %v us", v)
	}
	if v := got[bench.PeakStates]; v > got[bench.TotalStates] {
		t.Errorf("peak_states %v of total_states %v", v, got[bench.TotalStates])
	}
	if v := got[bench.StackDepth]; v < 0 || math.Mod(v, 8) != 0 {
		t.Errorf("stack_depth %v bytes; log:\n%s", v, l.Log)
	}
}

// TestStaticSubprograms is that each subprogram's stack counts.
func TestStaticSubprograms(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	o := compileForTest(t, `
static __attribute__((noinline)) int sub(void *c) {
	char b[104];
	__builtin_memset(b, 1, sizeof b);
	asm volatile("" :: "r"(&b[0]) : "memory");
	return b[3];
}
SEC("xdp") int with_sub(struct xdp_md *c) {
	char b[40];
	__builtin_memset(b, 2, sizeof b);
	asm volatile("" :: "r"(&b[0]) : "memory");
	return sub(c) + b[1];
}
SEC("xdp") int none(struct xdp_md *c) { return XDP_PASS; }
`)
	for name, want := range map[string]float64{"with_sub": 40 + 104, "none": 0} {
		l, err := o.Load(name, LoadOptions{Stats: true})
		if err != nil {
			t.Fatal(err)
		}
		results, err := Static(l)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, r := range results {
			if r.Measure == bench.StackDepth {
				found = true
				if r.Samples[0].Value != want {
					t.Errorf("%s: stack_depth %v, want %v; log:\n%s", name, r.Samples[0].Value, want, l.Log)
				}
			}
		}
		if !found {
			t.Errorf("%s: no stack_depth", name)
		}
		l.Close()
	}

	// Without the log, the program's info is all there is.
	l, err := o.Load("none", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	results, err := Static(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		switch r.Measure {
		case bench.StackDepth, bench.TotalStates, bench.PeakStates, bench.VerificationUS:
			t.Errorf("%s %v without a log", r.Measure, r.Samples)
		}
	}
}
