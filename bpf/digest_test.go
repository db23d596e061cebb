//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// reach is an object in which one program reaches others: entry tail-calls callee,
// which is configured, writer shares a map with it, and writer's own callee is
// reached through that. apart shares nothing but constants.
const reach = `
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 2); __type(key, __u32); __array(values, int(void *)); } calls SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 2); __type(key, __u32); __type(value, __u32); } more SEC(".maps");
struct locked { struct bpf_spin_lock lock; __u32 n; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct locked); } shared SEC(".maps");
struct in { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u32); } in1 SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 1); __type(key, __u32); __array(values, struct in); } outer SEC(".maps") = { .values = { &in1 } };
const volatile int limit = 7;
int seen;
SEC("xdp") int entry(struct xdp_md *c) {
	__u32 key = 0;
	struct locked *v = bpf_map_lookup_elem(&shared, &key);
	if (v && v->n > limit)
		bpf_tail_call(c, &calls, 1);
	if (bpf_map_lookup_elem(&outer, &key))
		bpf_tail_call(c, &more, 0);
	return XDP_PASS;
}
SEC("xdp") int callee(struct xdp_md *c) { return XDP_DROP; }
SEC("xdp") int configured(struct xdp_md *c) { return XDP_TX; }
SEC("xdp") int writer(struct xdp_md *c) {
	__u32 key = 0;
	struct locked *v = bpf_map_lookup_elem(&shared, &key);
	if (v)
		v->n = limit;
	seen += 2;
	return XDP_PASS;
}
SEC("xdp") int counter(struct xdp_md *c) { return seen > 3; }
SEC("xdp") int apart(struct xdp_md *c) { return limit > 5; }
`

// What an unchanged program must have in common, one difference at a time.
func TestDigestReach(t *testing.T) {
	source := strings.Replace(reach, "__array(values, int(void *)); } calls SEC(\".maps\");",
		"__array(values, int(void *)); } calls SEC(\".maps\") = { .values = { [1] = (void *)&callee } };", 1)
	source = "int callee(struct xdp_md *c);\n" + source
	setup := bench.Program{Name: "entry", Maps: []bench.MapSetup{{Name: "more", Entries: []bench.Entry{{
		Key: val(num(0)), Value: val(bench.Call{Func: "program", Args: []bench.Value{val(bench.Text("configured"))}}),
	}}}}}
	digests := func(source string, edit func(*Object)) map[string]string {
		t.Helper()
		o := compileForTest(t, source)
		if edit != nil {
			edit(o)
		}
		if err := o.Configure([]bench.Program{setup}); err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, p := range o.Programs() {
			if out[p] = o.Digest(p); out[p] == "" {
				t.Fatalf("no digest of %s", p)
			}
		}
		return out
	}
	was := digests(source, nil)
	replace := func(old, new string) string {
		t.Helper()
		if !strings.Contains(source, old) {
			t.Fatalf("no %q to replace", old)
		}
		return strings.Replace(source, old, new, 1)
	}
	// What shares a map, directly or by way of another; what is only called reaches
	// nobody.
	const together = "counter entry writer"
	for _, tt := range []struct {
		name    string
		source  string
		edit    func(*Object)
		changed string
	}{
		{"nothing", source, nil, ""},
		{"where lines stand", "\n\n" + strings.ReplaceAll(source, "{ return", "{\n\n return"), nil, ""},
		{"a program that is alone", replace("limit > 5", "limit > 6"), nil, "apart"},
		{"a callee by initial values", replace("XDP_DROP", "XDP_ABORTED"), nil, together + " callee"},
		{"a callee by configuration", replace("XDP_TX", "XDP_ABORTED"), nil, together + " configured"},
		{"a writer of a shared map", replace("v->n = limit", "v->n = limit + 1"), nil, together},
		{"a writer of a global variable", replace("seen += 2", "seen += 3"), nil, together},
		{"a reader of it", replace("seen > 3", "seen > 4"), nil, together},
		{"a global variable's first value", replace("int seen;", "int seen = 1;"), nil, together},
		{"a constant's value", replace("limit = 7", "limit = 8"), nil, together + " apart"},
		{"which callee", replace("[1] = (void *)&callee", "[0] = (void *)&callee"), nil, together},
		{"a map's size", replace("__uint(max_entries, 1); __type(key, __u32); __type(value, struct locked)", "__uint(max_entries, 2); __type(key, __u32); __type(value, struct locked)"), nil, together},
		{"a map's value, of the same size", replace("struct locked { struct bpf_spin_lock lock; __u32 n; }", "struct locked { __u32 lock, n; }"), nil, together},
		{"a map inside of a map", replace("in { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1)", "in { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 2)"), nil, together},
		{"a map's flags", source, func(o *Object) { o.spec.Maps["shared"].Flags |= unix.BPF_F_NUMA_NODE }, together},
		{"a map's extra", source, func(o *Object) { o.spec.Maps["shared"].MapExtra = 3 }, together},
		{"contents of a map", source, func(o *Object) {
			o.spec.Maps["shared"].Contents = []ebpf.MapKV{{Key: uint32(0), Value: []byte{0, 0, 0, 0, 9, 0, 0, 0}}}
		}, together},
		{"a program's flags", source, func(o *Object) { o.spec.Programs["apart"].Flags |= unix.BPF_F_XDP_HAS_FRAGS }, "apart"},
		{"a program's attach type", source, func(o *Object) { o.spec.Programs["apart"].AttachType = ebpf.AttachXDPDevMap }, "apart"},
		{"a program's target", source, func(o *Object) { o.spec.Programs["apart"].AttachTo = "x" }, "apart"},
		{"a program's license", source, func(o *Object) { o.spec.Programs["apart"].License = "other" }, "apart"},
		{"flags of a callee", source, func(o *Object) { o.spec.Programs["callee"].Flags |= unix.BPF_F_XDP_HAS_FRAGS }, together + " callee"},
	} {
		now := digests(tt.source, tt.edit)
		for p := range was {
			if changed := strings.Contains(" "+tt.changed+" ", " "+p+" "); changed == (was[p] == now[p]) {
				t.Errorf("%s: %s is another program: %v, want %v", tt.name, p, was[p] != now[p], changed)
			}
		}
	}
	o := compileForTest(t, source)
	bad := setup
	bad.Constants = []bench.Constant{{Name: "none", Value: val(num(1))}}
	if err := o.Configure([]bench.Program{bad}); err != nil {
		t.Fatal(err)
	}
	if d := o.Digest("entry"); d != "" {
		t.Errorf("configured to what does not fit: %q", d)
	}
}

// Relocations count by what the kernel makes of them: the same field by another
// local type is the same, wherever its type stands in the object.
func TestDigestRelocated(t *testing.T) {
	const source = `
struct task_struct { int prio, pid, tgid; } __attribute__((preserve_access_index));
struct task_struct___mine { long pad[9]; int pid; } __attribute__((preserve_access_index));
MORE
SEC("raw_tp/sched_switch") int prog(void *c) {
	struct task_struct *t = (void *)bpf_get_current_task();
	int n = 0;
	bpf_probe_read_kernel(&n, sizeof(n), &t->pid);
	return n;
}
`
	digest := func(edits ...string) string {
		t.Helper()
		return compileForTest(t, strings.NewReplacer(append(edits, "MORE", "")...).Replace(source)).Digest("prog")
	}
	was := digest()
	if was == "" {
		t.Fatal("no digest")
	}
	// A type more before it, in another program, gives all others other numbers.
	other := `struct mm_struct { int total_vm; } __attribute__((preserve_access_index));
SEC("raw_tp/sched_switch") int first(void *c) { struct mm_struct *m = (void *)bpf_get_current_task(); int n = 0; bpf_probe_read_kernel(&n, sizeof(n), &m->total_vm); return n; }`
	if d := digest("MORE", other); d != was {
		t.Error("another number of a type is another program")
	}
	if d := digest("struct task_struct *t", "struct task_struct___mine *t"); (d == was) != haveKernelTypes() {
		t.Errorf("the same field by another local type: same %v", d == was)
	}
	if d := digest("&t->pid", "&t->tgid"); d == was {
		t.Error("another field is the same program")
	}
}

func haveKernelTypes() bool {
	_, err := kernelTypes.Kernel()
	return err == nil
}
