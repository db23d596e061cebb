//go:build linux

package bpf

import (
	"encoding/json"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestParseLog(t *testing.T) {
	for _, tt := range []struct {
		name, log string
		want      map[string]float64
		functions string
		err       string
	}{
		{
			name:      "6.18",
			log:       "verification time 182 usec\nstack depth 40+104\nprocessed 229 insns (limit 1000000) max_states_per_insn 1 total_states 14 peak_states 13 mark_read 3\n",
			want:      map[string]float64{bench.VerificationUS: 182, bench.StackDepth: 144, bench.VerifiedInsns: 229, bench.TotalStates: 14, bench.PeakStates: 13, bench.MaxStatesPerInsn: 1, bench.MaxMarkReadLen: 3},
			functions: "  - - 40,   - - 104",
		},
		{
			name:      "one program without a stack",
			log:       "verification time 5 usec\nstack depth 0\nprocessed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0",
			want:      map[string]float64{bench.VerificationUS: 5, bench.StackDepth: 0, bench.VerifiedInsns: 2, bench.TotalStates: 0, bench.PeakStates: 0, bench.MaxStatesPerInsn: 0, bench.MaxMarkReadLen: 0},
			functions: "  - - 0",
		},
		{
			name: "before 5.2: no states",
			log:  "processed 31 insns (limit 131072), stack depth 8\n",
			want: map[string]float64{bench.VerifiedInsns: 31},
		},
		{
			name:      "the deepest chain, beside the functions",
			log:       "stack depth 32+64 max 96\nprocessed 3 insns (limit 1000000) new_word 7 peak_states 1",
			want:      map[string]float64{bench.StackDepth: 96, bench.MaxStackDepth: 96, bench.VerifiedInsns: 3, bench.PeakStates: 1},
			functions: "  - - 32,   - - 64",
		},
		{
			name: "7.3: a line a function",
			log: "verification time 9 usec\nstack depth max 144\nsubprog 0 (with_sub) main insns_self 12 insns_total 30 stack 40\n" +
				"subprog 1 (<unknown>) static insns_self 18 insns_total 18 stack 104\nprocessed 30 insns (limit 1000000)",
			want:      map[string]float64{bench.VerificationUS: 9, bench.MaxStackDepth: 144, bench.StackDepth: 144, bench.VerifiedInsns: 30},
			functions: "with_sub main 12 30 40,  static 18 18 104",
		},
		{
			name: "among other lines",
			log:  "func#0 @0\n0: R1=ctx()\nprocessed by hand\nsubprog 1 is odd\nprocessed 4 insns (limit 1000000)\n",
			want: map[string]float64{bench.VerifiedInsns: 4},
		},
		{name: "empty", want: map[string]float64{}},
		{name: "torn number", log: "stack depth 32+x\n", err: `line "stack depth 32+x"`},
		{name: "negative", log: "processed -4 insns (limit 1000000)", err: "processed -4"},
		{name: "overflow", log: "verification time 99999999999999999999 usec", err: "out of range"},
		{name: "too deep", log: "stack depth 4294967296", err: "out of range"},
		{name: "a function is missing", log: "subprog 1 (f) static insns_self 1 insns_total 1 stack 0", err: "number 1 follows 0 others"},
		{name: "another word", log: "subprog 0 (f) main insns_self 1 states 1 stack 0", err: "expected insns_total"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := parseLog(tt.log)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || !maps.Equal(v.values, tt.want) {
				t.Errorf("got %v, %v, want %v", v.values, err, tt.want)
			}
			show := func(n *int) string {
				if n == nil {
					return "-"
				}
				return strconv.Itoa(*n)
			}
			var functions []string
			for _, f := range v.functions {
				functions = append(functions, strings.Join([]string{f.Name, f.Kind, show(f.InsnsSelf), show(f.InsnsTotal), show(f.Stack)}, " "))
			}
			if got := strings.Join(functions, ", "); got != tt.functions {
				t.Errorf("functions %q, want %q", got, tt.functions)
			}
		})
	}
}

// FuzzParseLog is that no log, which holds names of the program's, breaks anything.
func FuzzParseLog(f *testing.F) {
	f.Add("stack depth 40+104 max 144\nsubprog 0 (a) main insns_self 1 insns_total 2 stack 3\nprocessed 229 insns (limit 1000000) max_states_per_insn 1 total_states 14")
	f.Fuzz(func(t *testing.T, log string) {
		v, err := parseLog(log)
		if err != nil {
			return
		}
		for name, x := range v.values {
			if x < 0 || x != math.Trunc(x) {
				t.Errorf("%s %v", name, x)
			}
		}
		sum := 0.0
		for _, fn := range v.functions {
			sum += float64(*fn.Stack)
		}
		if sum != v.values[bench.StackDepth] {
			t.Errorf("functions take %v, stack_depth is %v", sum, v.values[bench.StackDepth])
		}
	})
}

// TestStatic holds the static measures of the distribution's programs against
// what bpftool reads of the same programs.
func TestStatic(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.BPFTool, testkernel.XDPTools, testkernel.BPFTools)
	testkernel.NoLeaks(t)
	cache := btf.NewCache()
	tested := 0
	for _, o := range append(xdpToolsObjects(t), embeddedObjects(t)...) {
		for _, name := range o.Programs() {
			l, err := o.Load(name, LoadOptions{Stats: true, Cache: cache, unused: true})
			if err != nil {
				continue // TestDistributionObjects says why
			}
			t.Run(filepath.Base(o.Path)+"/"+name, func(t *testing.T) { compareStatic(t, l, name) })
			l.Close()
			tested++
		}
	}
	if tested < 100 {
		t.Errorf("only %d programs were looked at", tested)
	}
}

// The end of the verifier's log, read by other means than those under test.
var processedLine = regexp.MustCompile(`processed (\d+) insns \(limit 1000000\) max_states_per_insn (\d+) total_states (\d+) peak_states (\d+) mark_read (\d+)`)

func compareStatic(t *testing.T, l *Loaded, name string) {
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
		_, ok := got[m.Name]
		switch m.Name {
		case bench.TailCallStack, bench.TailCallDepth:
			continue // not every program has one
		}
		if ok != m.Static {
			t.Errorf("measure %s present: %v, static: %v", m.Name, ok, m.Static)
		}
		if limit := m.KernelLimit(); limit > 0 && got[m.Name] > limit {
			t.Errorf("an accepted program has %s %v, above the kernel's %v", m.Name, got[m.Name], limit)
		}
	}
	line := processedLine.FindStringSubmatch(l.Log)
	if line == nil {
		t.Fatalf("log: %s", l.Log)
	}
	for i, m := range []string{bench.VerifiedInsns, bench.MaxStatesPerInsn, bench.TotalStates, bench.PeakStates, bench.MaxMarkReadLen} {
		if want := line[i+1]; strconv.Itoa(int(got[m])) != want {
			t.Errorf("%s %v, the log says %s", m, got[m], want)
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
		Maps    []int   `json:"map_ids"`
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
		{bench.UsedMaps, float64(len(show.Maps))},
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
	functions, err := Functions(l)
	if err != nil {
		t.Fatal(err)
	}
	if functions == nil {
		return
	}
	// What is told of functions adds up to what is told of the program.
	var stack, xlated, jited float64
	for _, f := range functions {
		if f.Name == "" || f.Stack == nil || f.Xlated == nil || f.Jited == nil {
			t.Fatalf("function %+v", f)
		}
		stack, xlated, jited = stack+float64(*f.Stack), xlated+float64(*f.Xlated), jited+float64(*f.Jited)
	}
	if stack != got[bench.StackDepth] || xlated != got[bench.XlatedInsns] || jited != got[bench.JitedBytes] {
		t.Errorf("functions have %v bytes of stack, %v instructions and %v bytes of code; the program %v, %v, %v",
			stack, xlated, jited, got[bench.StackDepth], got[bench.XlatedInsns], got[bench.JitedBytes])
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

// TestAttachTypeNames holds the names against the kernel's enumeration.
func TestAttachTypeNames(t *testing.T) {
	testkernel.Require(t, testkernel.BTF)
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var enum *btf.Enum
	if err := spec.TypeByName("bpf_attach_type", &enum); err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, v := range enum.Values {
		want := strings.ToLower(strings.TrimPrefix(v.Name, "BPF_"))
		if v.Value >= uint64(len(attachTypeNames)) || strings.HasPrefix(v.Name, "__MAX") {
			continue // newer than this table, or the end of an older kernel's
		}
		if got := attachTypeName(ebpf.AttachType(v.Value)); got != want {
			t.Errorf("attach type %d is %q, the kernel says %q", v.Value, got, want)
		}
		tested++
	}
	if tested < 30 {
		t.Errorf("only %d types", tested)
	}
}

// What is told of a program by its id is what is told of one's own.
func TestStaticByID(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Clang)
	testkernel.NoLeaks(t)
	l, err := compile(t, "testdata/types.bpf.c").Load("xdp_encap", LoadOptions{Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own, err := Static(l)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for _, r := range own {
		want[r.Measure] = r.Samples[0].Value
	}
	id := testkernel.ProgramID(t, l.Program)
	got, err := programs.StaticByID(id)
	if err != nil || len(got) < 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, r := range got {
		if r.Program != "xdp_encap" || r.Kind != bench.Static || len(r.Samples) != 1 || r.Samples[0].Value != want[r.Measure] {
			t.Errorf("%+v, want %v", r, want[r.Measure])
		}
	}
	if at := programs.OffsetByID(id); at != l.offset() {
		t.Errorf("starts at %d, want %d", at, l.offset())
	}
	if _, err := programs.StaticByID(1<<31 - 1); err == nil {
		t.Error("of no program")
	}
}
