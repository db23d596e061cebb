package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

var noPos = cmp.Options{cmpopts.IgnoreTypes(bench.Pos{}), cmpopts.EquateComparable(netip.Prefix{})}

func TestParse(t *testing.T) {
	const src = `version: 1
build:
  run: make
  share: [deps, a/b]
  outputs: ["out/*.o"]
  cflags: [-I, a, -I, b]
  timeout: 1m30s
programs:
  two:
    object: ./out//two.o
    type: tc
    attach: tcx/ingress
    loader: ./load.sh
    constants: {debug: false, rate: -3}
    maps:
      sized: {max_entries: 0x10, entries: [{key: 1..3, value: $key}]}
      queue: [{value: 9}]
  one: {object: one.bpf.c}
benchmarks:
  two/first:
    packets: {hex: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d}
    expect: TC_ACT_OK
    repeat: 7
    warm: 2
    restore: none
    drain: [queue, events]
    budget: 1500ms
  one/context: {context: 0a0b, expect: 0x2}
  one/sub/case: {veth: {mode: generic, count: 100, min_runs: 50}}
  one/default: {restore: packet, expect: -1}
  one/work:
    net: [{client: 10.0.0.1/24, router: 10.0.0.254/24}, {router: "fd00::1/64", server: "fd00::2/64"}]
    at: router/server
    setup: {in: server, run: serve, port: 80}
    teardown: [stop, {run: stop 2}]
    min_runs: 1_000
    with: [two]
    alternate: true
    work: {run: client $GATE_ADDR, in: router, within: 2s, figures: {rate: {match: "x([0-9]+)", unit: req/s, better: higher}, p99: {json: a.0.b, unit: ms, better: lower}}}
  one/sent: {work: {packets: {hex: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d}, rate: 2.5, count: 7}}
  one/watched: {work: {duration: 2s}}
policy:
  alpha: 5%
  test: t_test
  budget: 2m
  min_effect: 2.5ns
  latency: {fail: 4%, max: 1.5us}
  "figure[rate]": {fail: 7%}
  verification_time: {max: 2ms}
  verified_insns: {warn: 0, fail: 10}
  threshold: {lower: 95%, min_sample_size: 20}
  jited_bytes: {threshold: {test: percentage, upper: 10%, max_sample_size: 1}}
  runs: {threshold: {test: delta_iqr, upper: 1.5, lower: 3, window: 30d, change_points: ignore}}
  waivers:
    - {benchmark: two/first, max: {latency: 6%, runs: 5}, since: 2026-11-01, until: 2027-01-31, reason: "GUE support, #412"}
  overrides:
    - {benchmark: "two/*", latency: {fail: 1%, threshold: {test: static, upper: 2us, lower: 0.5}}}
    - {benchmark: one/default, memlock: {max: 4096, threshold: {test: t_test, upper: 0.9}}}
    - {kernel: 5.*, used_maps: {max: 75%}, verified_insns: {max: {warn: 25%, fail: 500_000}}}
`
	got, err := Parse("dir/ebpf-bench.yml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	policy := gate.DefaultPolicy()
	policy.Test = gate.PairedT
	policy.Alpha, policy.Budget, policy.MinEffectNS = 0.05, 2*time.Minute, 2.5
	policy.Limits["latency"] = gate.Limit{Fail: &gate.Margin{Ratio: 0.04}, Max: ptr(1500.)}
	policy.Limits["figure[rate]"] = gate.Limit{Fail: &gate.Margin{Ratio: 0.07}}
	policy.Limits["verification_time"] = gate.Limit{Max: ptr(2000.)}
	policy.Limits["verified_insns"] = gate.Limit{Warn: &gate.Margin{}, Fail: &gate.Margin{Absolute: 10}}
	policy.Threshold.Lower, policy.Threshold.MinSamples = ptr(0.95), 20
	policy.Limits["jited_bytes"] = gate.Limit{Threshold: &gate.Threshold{Test: gate.Percentage, Upper: ptr(0.1), MinSamples: 1, MaxSamples: 1}}
	policy.Limits["runs"] = gate.Limit{Threshold: &gate.Threshold{Test: gate.DeltaIQR, Upper: ptr(1.5), Lower: ptr(3.), MinSamples: 20, MaxSamples: 64, Window: 30 * 24 * time.Hour, KeepChanges: true}}
	policy.Waivers = []gate.Waiver{{
		Benchmark: "two/first", Max: map[string]gate.Margin{"latency": {Ratio: 0.06}, "runs": {Absolute: 5}}, Reason: "GUE support, #412",
		Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC),
	}}
	policy.Overrides = []gate.Override{
		{Benchmark: "two/*", Limits: map[string]gate.Limit{"latency": {Fail: &gate.Margin{Ratio: 0.01},
			Threshold: &gate.Threshold{Test: gate.Static, Upper: ptr(2000.), Lower: ptr(0.5), MinSamples: 20, MaxSamples: 64}}}},
		{Benchmark: "one/default", Limits: map[string]gate.Limit{"memlock": {Max: ptr(4096.),
			Threshold: &gate.Threshold{Test: gate.TTest, Upper: ptr(0.9), Lower: ptr(0.95), MinSamples: 20, MaxSamples: 64}}}},
		{Kernel: "5.*", Limits: map[string]gate.Limit{"used_maps": {Max: ptr(48.)}, "verified_insns": {Max: ptr(500000.), MaxWarn: ptr(250000.)}}},
	}
	want := &Suite{
		Version: 1, File: "dir/ebpf-bench.yml", Dir: "dir",
		Build: Build{
			Run: "make", Share: []string{"deps", "a/b"}, Outputs: []string{"out/*.o"},
			CFlags: []string{"-I", "a", "-I", "b"}, Timeout: 90 * time.Second,
		},
		Programs: []bench.Program{{
			Name: "two", Object: "out/two.o", Type: "tc", Attach: "tcx/ingress", Loader: "./load.sh",
			Constants: []bench.Constant{{Name: "debug", Value: val(bench.Int{})}, {Name: "rate", Value: val(bench.Int{Abs: 3, Neg: true})}},
			Maps: []bench.MapSetup{
				{Name: "sized", MaxEntries: 16, Entries: []bench.Entry{{Key: val(bench.Range{First: 1, Last: 3}), Value: val(bench.Variable{Name: "key"})}}},
				{Name: "queue", Entries: []bench.Entry{{Value: val(bench.Int{Abs: 9})}}},
			},
		}, {Name: "one", Object: "one.bpf.c"}},
		Benchmarks: []bench.Benchmark{
			{
				Name: "two/first", Program: "two", Packets: [][]byte{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
				Expect: "TC_ACT_OK", Repeat: 7, Warm: 2, KeepPacket: true, Drain: []string{"queue", "events"}, Budget: 1500 * time.Millisecond,
			},
			{Name: "one/context", Program: "one", Context: []byte{10, 11}, Expect: "2"},
			{Name: "one/sub/case", Program: "one", Veth: &bench.Veth{Mode: "generic", Count: 100, MinRuns: 50}},
			{Name: "one/default", Program: "one", Expect: "-1"},
			{
				Name: "one/work", Program: "one", At: "router/server", MinRuns: 1000, With: []string{"two"}, Alternate: true,
				Net: []bench.Link{
					{Ends: [2]bench.End{{Namespace: "client", Addr: netip.MustParsePrefix("10.0.0.1/24")}, {Namespace: "router", Addr: netip.MustParsePrefix("10.0.0.254/24")}}},
					{Ends: [2]bench.End{{Namespace: "router", Addr: netip.MustParsePrefix("fd00::1/64")}, {Namespace: "server", Addr: netip.MustParsePrefix("fd00::2/64")}}},
				},
				Setup:    []bench.Command{{Run: "serve", In: "server", Port: 80}},
				Teardown: []bench.Command{{Run: "stop"}, {Run: "stop 2"}},
				Work: &bench.Work{Run: "client $GATE_ADDR", In: "router", Within: 2 * time.Second, Figures: []bench.Figure{
					{Name: "rate", Match: "x([0-9]+)", Unit: "req/s", Better: bench.Higher},
					{Name: "p99", JSON: "a.0.b", Unit: "ms", Better: bench.Lower},
				}},
			},
			{Name: "one/sent", Program: "one", Packets: [][]byte{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}, Work: &bench.Work{Packets: true, Rate: 2.5, Count: 7}},
			{Name: "one/watched", Program: "one", Work: &bench.Work{Duration: 2 * time.Second}},
		},
		Policy: policy,
	}
	if diff := cmp.Diff(want, got, noPos); diff != "" {
		t.Error(diff)
	}
	if p := got.Programs[0].Maps[0].Entries[0].Value.Pos; p.String() != "dir/ebpf-bench.yml:16:63" {
		t.Errorf("the place of $key is %s", p)
	}
	if p := got.Benchmarks[2].Pos; p.String() != "dir/ebpf-bench.yml:29:3" {
		t.Errorf("the place of one/sub/case is %s", p)
	}

	again, err := ParsePolicy("dir/ebpf-bench.yml", []byte(src))
	if diff := cmp.Diff(policy, again); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func ptr[T any](v T) *T            { return &v }
func val(e bench.Expr) bench.Value { return bench.Value{Expr: e} }

// A config that sets nothing has the default policy, and shares no part of it.
func TestDefaultPolicy(t *testing.T) {
	s, err := Parse("f", []byte("version: 1\npolicy: {jited_bytes: {fail: 1%}}"))
	if err != nil {
		t.Fatal(err)
	}
	delete(s.Policy.Limits, "jited_bytes")
	if diff := cmp.Diff(gate.DefaultPolicy(), s.Policy); diff != "" {
		t.Error(diff)
	}
	s, err = Parse("f", []byte("version: 1\npolicy: {latency: {}}"))
	if err != nil || s.Policy.Limits["latency"].Fail != nil || s.Policy.Limits["insns"].Fail == nil {
		t.Errorf("latency: {} leaves %+v, %v", s, err)
	}
}

// A base's policy is read whatever the rest of its file has become.
func TestParsePolicyAlone(t *testing.T) {
	p, err := ParsePolicy("f", []byte("version: 1\nagents: {a: 1}\nbenchmarks: {x/y: {packets: gone.pcap}}\npolicy: {alpha: 0.5}"))
	if err != nil || p.Alpha != 0.5 {
		t.Errorf("%v, %v", p, err)
	}
	for src, want := range map[string]string{
		"version: 2":                          "f:1:10: version \"2\" is not known",
		"policy: {}":                          "f:1:1: the config has no version",
		"[]":                                  "f:1:1: the config must be a mapping, not a list",
		"version: 1\npolicy: {alfa: 1}":       `f:2:10: unknown key "alfa" in policy`,
		"version: 1\npolicy: {runs_more: {}}": `f:2:10: unknown key "runs_more" in policy`,
	} {
		if p, err := ParsePolicy("f", []byte(src)); err == nil || !strings.HasPrefix(err.Error(), want) || p.Limits != nil {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
}

// TestKernels reads versions as they stand there: 6.10 is none of 6.1.
func TestKernels(t *testing.T) {
	s, err := Parse("f", []byte("version: 1\nkernels: [6.1, 6.10, host, 6.12.117+deb12]"))
	if err != nil || strings.Join(s.Kernels, " ") != "6.1 6.10 host 6.12.117+deb12" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestValues(t *testing.T) {
	four := bench.Bytes{10, 0, 0, 1}
	call := func(f string, arg bench.Expr) bench.Call { return bench.Call{Func: f, Args: []bench.Value{val(arg)}} }
	for src, want := range map[string]bench.Expr{
		"0":                         bench.Int{},
		"-0":                        bench.Int{},
		"18446744073709551615":      bench.Int{Abs: 1<<64 - 1},
		"-9223372036854775808":      bench.Int{Abs: 1 << 63, Neg: true},
		"0x1F":                      bench.Int{Abs: 31},
		"0o17":                      bench.Int{Abs: 15},
		"0b101":                     bench.Int{Abs: 5},
		"1_000":                     bench.Int{Abs: 1000},
		"true":                      bench.Int{Abs: 1},
		"false":                     bench.Int{},
		`"true"`:                    bench.Text("true"),
		`"5"`:                       bench.Text("5"),
		`"new"`:                     bench.Text("new"),
		`"be(80)"`:                  bench.Text("be(80)"),
		`"$HOME"`:                   bench.Text("$HOME"),
		`""`:                        bench.Text(""),
		"eth0":                      bench.Text("eth0"),
		"yes":                       bench.Text("yes"),
		"10.0.0.1":                  four,
		`"10.0.0.1"`:                four,
		"fd00::1":                   bench.Bytes{0xfd, 15: 1},
		`"::ffff:10.0.0.1"`:         bench.Bytes{10: 255, 11: 255, 12: 10, 15: 1},
		"02:00:00:00:00:0a":         bench.Bytes{2, 5: 10},
		"hex(0a 0b)":                bench.Bytes{10, 11},
		"$key":                      bench.Variable{Name: "key"},
		"10.0.0.$key":               bench.Variable{Prefix: "10.0.0.", Name: "key"},
		`"fd00::$key"`:              bench.Variable{Prefix: "fd00::", Name: "key"},
		"a$key.b":                   bench.Variable{Prefix: "a", Name: "key", Suffix: ".b"},
		"be(80)":                    call("be", bench.Int{Abs: 80}),
		"be($key)":                  call("be", bench.Variable{Name: "key"}),
		"u8(255)":                   call("u8", bench.Int{Abs: 255}),
		"u8(-128)":                  call("u8", bench.Int{Abs: 128, Neg: true}),
		"u64(18446744073709551615)": call("u64", bench.Int{Abs: 1<<64 - 1}),
		"u32(10.0.0.1)":             call("u32", four),
		"u16(be(80))":               call("u16", call("be", bench.Int{Abs: 80})),
		"new":                       bench.Call{Func: "new"},
		"program(next)":             call("program", bench.Text("next")),
		"{program: next}":           call("program", bench.Text("next")),
		"{program: 5}":              bench.Struct{{Name: "program", Value: val(bench.Int{Abs: 5})}},
		"[1, [2]]":                  bench.List{val(bench.Int{Abs: 1}), val(bench.List{val(bench.Int{Abs: 2})})},
		"{a: 1, b: {c: x}}": bench.Struct{
			{Name: "a", Value: val(bench.Int{Abs: 1})},
			{Name: "b", Value: val(bench.Struct{{Name: "c", Value: val(bench.Text("x"))}})},
		},
	} {
		s, err := Parse("f", []byte("version: 1\nprograms: {p: {object: o, maps: {m: [{key: 7, value: "+src+"}]}}}"))
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if diff := cmp.Diff(want, s.Programs[0].Maps[0].Entries[0].Value.Expr, noPos, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", src, diff)
		}
	}
}

// The configs of the design that this version supports, verbatim but for what
// belongs to later ones.
func TestUX(t *testing.T) {
	dir := t.TempDir()
	testCapture(t, dir, "testdata/imix.pcap", 7)
	files, err := filepath.Glob("testdata/ux/*.yml")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	packets := map[string]int{"balancer_ingress/new": 1024, "balancer_ingress/known": 1024, "firewall/blocked": 1, "ingress/imix": 7, "connect/loopback": 0}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(filepath.Join(dir, filepath.Base(f)), src)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, b := range s.Benchmarks {
			if len(b.Packets) != packets[b.Name] {
				t.Errorf("%s: %d packets, want %d", b.Name, len(b.Packets), packets[b.Name])
			}
			delete(packets, b.Name)
		}
	}
	if len(packets) > 0 {
		t.Errorf("not read: %v", packets)
	}
}

func TestArch(t *testing.T) {
	// As cmd/bpf2go of cilium/ebpf names its files.
	for goarch, want := range map[string]string{"amd64": "x86", "386": "x86", "arm64": "arm64", "arm": "arm", "ppc64le": "powerpc", "s390x": "s390", "riscv64": "riscv", "loong64": "loongarch", "mips64le": "mips"} {
		if got := targetArch(goarch); got != want {
			t.Errorf("%s is %s, want %s", goarch, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	top := t.TempDir()
	repo := filepath.Join(top, "repo")
	deep := filepath.Join(repo, "a", "b")
	for _, d := range []string{deep, filepath.Join(repo, ".git")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(dir string) string {
		path := filepath.Join(dir, FileName)
		if err := os.WriteFile(path, []byte("version: 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(top)
	if p, err := Find(deep); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %s above the repository, %v", p, err)
	}
	want := write(repo)
	if p, err := Find(deep); p != want || err != nil {
		t.Errorf("found %s, %v, want %s", p, err, want)
	}
	if _, err := Load(want); err != nil {
		t.Error(err)
	}
	t.Chdir(deep)
	if p, err := Find("."); p != filepath.Join("..", "..", FileName) || err != nil {
		t.Errorf("found %s, %v", p, err)
	}
	// Anybody can write there: the file may be anybody's.
	if err := os.Chmod(repo, 0o777); err != nil {
		t.Fatal(err)
	}
	if p, err := Find(deep); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %s in a directory that anybody writes, %v", p, err)
	}
	if p, err := Find(repo); p != want || err != nil {
		t.Errorf("not found where the caller stands: %s, %v", p, err)
	}
	if err := os.Mkdir(filepath.Join(deep, FileName), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(deep, FileName)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("/dev/zero: %v", err)
	}
}
