//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// Where a program hangs is what attach says, else its section; and what neither
// says is asked for, with the line to write.
func TestHook(t *testing.T) {
	for _, tt := range []struct {
		section string
		typ     ebpf.ProgramType
		at      ebpf.AttachType
		config  bench.Program
		want    string // String and Shared
		err     string
		hint    string
	}{
		{section: "tracepoint/sched/sched_switch", typ: ebpf.TracePoint, want: "tracepoint/sched/sched_switch shared"},
		{section: "?tp/sched/sched_switch", typ: ebpf.TracePoint, want: "tp/sched/sched_switch shared"},
		{section: "kprobe/tcp_v4_connect", typ: ebpf.Kprobe, config: bench.Program{Attach: "kretprobe/tcp_v6_connect"}, want: "kretprobe/tcp_v6_connect shared"},
		{section: "fentry.s/do_exit", typ: ebpf.Tracing, want: "fentry.s/do_exit shared"},
		{section: "fmod_ret/do_exit", typ: ebpf.Tracing, want: "fmod_ret/do_exit alone"},
		{section: "uprobe//bin/sh:main", typ: ebpf.Kprobe, want: "uprobe//bin/sh:main shared"},
		{section: "xdp.frags", typ: ebpf.XDP, want: "xdp.frags alone"},
		{section: "prog", typ: ebpf.SchedCLS, config: bench.Program{Type: "tc"}, want: "tc alone"},
		{section: "prog", typ: ebpf.XDP, want: "xdp alone"},
		{section: "cgroup/connect4", typ: ebpf.CGroupSockAddr, at: ebpf.AttachCGroupInet4Connect, want: "cgroup/connect4 alone cgroup"},
		{section: "sockops", typ: ebpf.SockOps, at: ebpf.AttachCGroupSockOps, want: "sockops alone cgroup"},
		{section: "sk_lookup/x", typ: ebpf.SkLookup, want: "sk_lookup/x alone"},
		{section: "tracepoint", typ: ebpf.TracePoint, err: `its section "tracepoint" does not say where p hangs`, hint: "programs: {p: {object: …, attach: tracepoint/sched/sched_switch}}"},
		{section: "kprobe", typ: ebpf.Kprobe, err: "does not say where p hangs", hint: "attach: kprobe/tcp_v4_connect"},
		{section: "perf_event", typ: ebpf.PerfEvent, err: "does not say", hint: "perf_event/cpu-clock:997"},
		{section: "netfilter", typ: ebpf.Netfilter, err: "does not say", hint: "netfilter/ipv4/local_in:0"},
		{section: "prog", typ: ebpf.Netfilter, err: "of type netfilter, hangs", hint: "netfilter/ipv4/local_in:0"},
		{section: "prog", err: "what type of program p is", hint: "attach: kprobe/tcp_v4_connect"},
		{section: "cgroup/somewhere", typ: ebpf.CGroupSKB, err: "at which of a control group's hooks", hint: "attach: "},
		{section: "tracepoint/sched", typ: ebpf.TracePoint, err: "a group and a name", hint: "tracepoint/sched/sched_switch"},
		{section: "tracepoint/../x", typ: ebpf.TracePoint, err: "a group and a name", hint: "attach: "},
		{section: "kprobe/f+g", typ: ebpf.Kprobe, err: `"g" is no offset`, hint: "attach: "},
		{section: "kprobe.multi/tcp_[", typ: ebpf.Kprobe, err: "not a pattern", hint: "attach: "},
		{section: "uprobe/bin/sh", typ: ebpf.Kprobe, err: "needs its file and a function", hint: "uprobe/bin/server:handle"},
		{section: "uprobe/bin/sh:+4", typ: ebpf.Kprobe, err: "needs a function", hint: "attach: "},
		{section: "uprobe.multi/bin/sh:[", typ: ebpf.Kprobe, err: "not a pattern", hint: "attach: "},
		{section: "usdt/bin/sh:x", typ: ebpf.Kprobe, err: "a file, a provider and a name", hint: "usdt/"},
		{section: "perf_event/cpu-clok", typ: ebpf.PerfEvent, err: `unknown event "cpu-clok": expected one of branch-misses`, hint: "attach: "},
		{section: "perf_event/cpu-clock@5:7", typ: ebpf.PerfEvent, err: "a frequency or a period, not both", hint: "attach: "},
		{section: "perf_event/page-faults@0", typ: ebpf.PerfEvent, err: `"0" is no number`, hint: "attach: "},
		{section: "netfilter/ipv4/nowhere", typ: ebpf.Netfilter, err: "forward, local_in", hint: "attach: "},
		{section: "netfilter/ipv4/local_in:4294967296", typ: ebpf.Netfilter, err: "a priority", hint: "attach: "},
		{section: "sk_skb/x", typ: ebpf.SkSKB, err: "whether it parses or judges", hint: "attach: "},
		{section: "iter/bpf_map_elem", typ: ebpf.Tracing, err: "iter/bpf_map_elem/MAP", hint: "attach: "},
		{section: "xdp/devmap", typ: ebpf.XDP, err: "where another one redirects to", hint: "attach: xdp"},
		{section: "xdp/of_a_loader", typ: ebpf.XDP, want: "xdp/of_a_loader alone"},
		{section: "xdp", typ: ebpf.XDP, config: bench.Program{Attach: "xdp/of_a_loader"}, err: "expected native or generic", hint: "attach: xdp"},
		{section: "prog", typ: ebpf.SchedCLS, config: bench.Program{Attach: "tc/egress"}, want: "tc/egress alone"},
		{section: "freplace/f", typ: ebpf.Extension, err: "its runs are not counted"},
		{section: "lsm_cgroup/socket_bind", typ: ebpf.LSM, err: "an agent can"},
		{section: "syscall", typ: ebpf.Syscall, err: "nothing in the kernel runs it"},
	} {
		o := &Object{spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"p": {SectionName: tt.section, Type: tt.typ, AttachType: tt.at}}}, programs: map[string]bench.Program{"p": tt.config}}
		h, err := o.Hook("p")
		if err != nil {
			var d *bench.Diagnostic
			if tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", tt.section, err, tt.err)
			}
			if errors.As(err, &d) != (tt.hint != "") || d != nil && !strings.Contains(d.Hint, tt.hint) {
				t.Errorf("%s: hint of %+v, want %q", tt.section, d, tt.hint)
			}
			continue
		}
		got := h.String() + map[bool]string{true: " shared", false: " alone"}[h.Shared()]
		if h.Cgroup() {
			got += " cgroup"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.section, got, tt.want)
		}
	}
}

// What is not there to hang at is the config's mistake where the config names it, and
// else what this host cannot do.
func TestNoTarget(t *testing.T) {
	at := bench.Pos{File: "f", Line: 3, Col: 5}
	h := Hook{target: "sched/swich", text: "tracepoint/sched/swich", pos: at}
	known := []string{"sched/wait", "sched/switch"}
	var lost *NoTarget
	if err := h.missing(known, "no %s", "x"); err.Error() != "no x" || errors.As(err, &lost) {
		t.Errorf("%v, %+v", err, lost)
	}
	h.attach = true
	err := fmt.Errorf("attach: %w", h.missing(known, "no %s", "x"))
	if !errors.As(err, &lost) || lost.Error() != `f:3:5: attach: "tracepoint/sched/swich": no x` || lost.Hint != "did you mean tracepoint/sched/switch?" {
		t.Errorf("%v, %+v", err, lost)
	}
	var d *bench.Diagnostic
	if !errors.As(err, &d) || d.Pos != at {
		t.Errorf("%+v", d)
	}
	if err := h.missing([]string{"net/xmit"}, "no"); !errors.As(err, &lost) || lost.Hint != "" {
		t.Errorf("%+v", lost)
	}
}

// Every hook that can be said in a section can be said in attach, too.
func TestHooksAreSections(t *testing.T) {
	for _, k := range kinds {
		if k.attach == nil {
			continue
		}
		for _, name := range k.names {
			text := name
			if k.example != "" {
				_, target, _ := strings.Cut(k.example, "/")
				text += "/" + target
			}
			if name == "raw_tracepoint.w" || name == "tcx" || name == "classifier" {
				continue // other names of what is there
			}
			spec := &ebpf.ProgramSpec{SectionName: "prog"}
			if err := retype(spec, bench.Program{Attach: text}); err != nil && k.typ != ebpf.StructOps {
				t.Errorf("attach: %s: %v", text, err)
			} else if k.typ != 0 && k.typ != ebpf.StructOps && spec.Type != k.typ {
				t.Errorf("attach: %s makes it %s, want %s", text, spec.Type, k.typ)
			}
		}
	}
}

func TestUSDTArgs(t *testing.T) {
	for _, tt := range []struct {
		arch, text string
		want       usdtArg
		err        string
	}{
		{"amd64", "8@%rdi", usdtArg{usdtReg, 0, 14 * 8, 8}, ""},
		{"amd64", "-4@%eax", usdtArg{usdtReg, 0, 10 * 8, -4}, ""},
		{"amd64", "1@%r15b", usdtArg{usdtReg, 0, 0, 1}, ""},
		{"amd64", "8@-16(%rbp)", usdtArg{usdtDeref, -16, 4 * 8, 8}, ""},
		{"amd64", "4@(%rsp)", usdtArg{usdtDeref, 0, 19 * 8, 4}, ""},
		{"amd64", "-4@$-9", usdtArg{usdtConst, -9, 0, -4}, ""},
		{"arm64", "8@x19", usdtArg{usdtReg, 0, 19 * 8, 8}, ""},
		{"arm64", "-4@[sp,60]", usdtArg{usdtDeref, 60, 31 * 8, -4}, ""},
		{"arm64", "4@5", usdtArg{usdtConst, 5, 0, 4}, ""},
		{"amd64", "3@%rdi", usdtArg{}, "does not read"},
		{"amd64", "8@%foo", usdtArg{}, "unknown register foo"},
		{"amd64", "8@8(%rax,%rbx,8)", usdtArg{}, "does not read"},
		{"arm64", "8@x31", usdtArg{}, "unknown register"},
		{"amd64", "8", usdtArg{}, "does not read"},
		{"mips", "8@x", usdtArg{}, "are not read on mips"},
	} {
		got, err := parseUSDTArg(tt.arch, tt.text)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s %s: %+v, %v", tt.arch, tt.text, got, err)
		}
	}
	if got := splitArgs("8@x0 4@[sp, 16]  -4@5"); strings.Join(got, "|") != "8@x0|4@[sp,16]|-4@5" {
		t.Errorf("%q", got)
	}
}

// Notes of others are not believed.
func TestUSDTProbesRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "text": "#!/bin/sh\n", "half": "\x7fELF\x02\x01\x01"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if probes, err := usdtProbes(file); err == nil {
			t.Errorf("%s has %v", name, probes)
		}
	}
	if probes, err := usdtProbes("/proc/self/exe"); err == nil || !strings.Contains(err.Error(), "has no USDT probes") {
		t.Errorf("this test has %v, %v", probes, err)
	}
}

func TestTracefs(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	f, err := tracefs("events/sched/sched_switch/id")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := tracefs("events/no/such"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a tracepoint that is not there: %v", err)
	}
}
