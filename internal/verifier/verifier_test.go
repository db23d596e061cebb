package verifier

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

// read reads a recording of veristat 0.5.1: base and head are its CSV of two sets of
// objects, one of which has a program that the verifier rejects, and one program that
// the other lacks; the rest is what veristat made of these two files.
func read(t *testing.T, name string) []Row {
	t.Helper()
	rows, err := ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func query(t *testing.T, emit, sort string, filters ...string) *Query {
	t.Helper()
	q := &Query{}
	var err error
	if emit != "" {
		if q.Columns, err = ParseColumns(emit); err != nil {
			t.Fatal(err)
		}
	}
	if sort != "" {
		if q.Sort, err = ParseSort(sort); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range filters {
		if err := q.AddFilter(f); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// fields are lines of words: tables align them differently.
func fields(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if strings.Trim(line, "- \n") != "" { // no rule
			b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
		}
	}
	return b.String()
}

// TestVeristat is that base and head give what veristat gave.
func TestVeristat(t *testing.T) {
	base, head := read(t, "base.csv"), read(t, "head.csv")
	for _, tt := range []struct {
		file  string
		q     *Query
		pairs []Pair
		write func(*Query, *bytes.Buffer, []Pair) error
	}{
		{"compare.txt", query(t, "file,prog,verdict,insns,states", ""), Join(base, head), func(q *Query, b *bytes.Buffer, p []Pair) error { return q.WriteTable(b, p) }},
		{"compare.csv", query(t, "file,prog,verdict,insns,prog_type", ""), Join(base, head), func(q *Query, b *bytes.Buffer, p []Pair) error { return q.WriteCSV(b, p) }},
		{"replay.txt", query(t, "file,prog,verdict,duration,insns,states,prog_size,prog_size_jited", "insnsv"), Alone(head), func(q *Query, b *bytes.Buffer, p []Pair) error { return q.WriteTable(b, p) }},
		{"base.csv", &Query{}, Alone(base), func(q *Query, b *bytes.Buffer, p []Pair) error { return q.WriteCSV(b, p) }},
		{"head.csv", &Query{}, Alone(head), func(q *Query, b *bytes.Buffer, p []Pair) error { return q.WriteCSV(b, p) }},
	} {
		want, err := os.ReadFile(filepath.Join("testdata", tt.file))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := tt.write(tt.q, &got, tt.q.Select(tt.pairs)); err != nil {
			t.Fatal(err)
		}
		a, b := string(want), got.String()
		if filepath.Ext(tt.file) == ".txt" {
			a, b = fields(a), fields(b)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s (-veristat +gate):\n%s", tt.file, d)
		}
	}
}

func programs(pairs []Pair) string {
	var names []string
	for _, p := range pairs {
		names = append(names, p.Program)
	}
	return strings.Join(names, " ")
}

func TestSelect(t *testing.T) {
	head := read(t, "head.csv")
	joined := Join(read(t, "base.csv"), head)
	for _, tt := range []struct {
		pairs   []Pair
		sort    string
		filters []string
		top     int
		want    string
	}{
		{Alone(head), "", nil, 0, "checked xdp_dispatcher xdp_pass fun_xdp xdpfilt_alw_ip"},
		{Alone(head), "insns", nil, 2, "xdpfilt_alw_ip fun_xdp"},
		{Alone(head), "insns^", nil, 0, "checked xdp_pass xdp_dispatcher fun_xdp xdpfilt_alw_ip"},
		{Alone(head), "verdict,prog.", nil, 0, "checked xdpfilt_alw_ip xdp_pass xdp_dispatcher fun_xdp"},
		{Alone(head), "", []string{"total_insns>1000"}, 0, "fun_xdp xdpfilt_alw_ip"},
		{Alone(head), "", []string{"total_insns>1000", "!states<=48"}, 0, "xdpfilt_alw_ip"},
		{Alone(head), "", []string{"verdict=failure"}, 0, "checked"},
		{Alone(head), "", []string{"!verdict == success"}, 0, "checked"},
		{Alone(head), "", []string{"limit_used>1.8"}, 0, "xdpfilt_alw_ip"}, // 18455 of 1,000,000
		{Alone(head), "", []string{"mem_peak>=0"}, 0, ""},                  // which nobody measured
		{Alone(head), "", []string{"xdp*"}, 0, "xdp_dispatcher xdp_pass xdpfilt_alw_ip"},
		{Alone(head), "", []string{"fun_xdp.o"}, 0, "fun_xdp"},
		{Alone(head), "", []string{"dis*/*pass"}, 0, "xdp_pass"},
		{Alone(head), "", []string{"/xdp*", "!new.o/"}, 0, "xdp_dispatcher xdp_pass"},
		{Alone(head), "", []string{"xdp*", "insns<5"}, 0, "xdp_pass"},
		{joined, "", []string{"insns_diff>0"}, 0, "fun_xdp"},
		{joined, "", []string{"insns_pct>=6598"}, 0, "fun_xdp"},
		{joined, "", []string{"insns_pct > 6599%"}, 0, ""},
		{joined, "|insns_diff|v", []string{"insns_diff!=0"}, 0, "fun_xdp xdpfilt_alw_tcp xdpfilt_alw_ip"},
		{joined, "", []string{"verdict_diff=mismatch"}, 0, "checked"},
		{joined, "", []string{"insns_a=16311"}, 0, "xdpfilt_alw_tcp"},
		{joined, "", []string{"insns_b=16311"}, 0, ""},
		{joined, "insns_a", nil, 1, "xdpfilt_alw_tcp"},
	} {
		q := query(t, "", tt.sort, tt.filters...)
		q.Top = tt.top
		if got := programs(q.Select(tt.pairs)); got != tt.want {
			t.Errorf("sort %q, filters %q: %s, want %s", tt.sort, tt.filters, got, tt.want)
		}
	}
}

func TestFilterFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "filters")
	if err := os.WriteFile(name, []byte("# both of them\nxdp*\n\n  !xdp_pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := programs(query(t, "", "", "@"+name).Select(Alone(read(t, "head.csv")))); got != "xdp_dispatcher xdpfilt_alw_ip" {
		t.Error(got)
	}
	if err := os.WriteFile(name, []byte("xdp*\ninsns>many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Query{}).AddFilter("@" + name); err == nil || !strings.Contains(err.Error(), ":2: ") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(name, []byte("@"+name), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Query{}).AddFilter("@" + name); err == nil {
		t.Error("a file of filters that names itself")
	}
}

func TestWrong(t *testing.T) {
	for s, want := range map[string]string{
		"insnz>1":       `unknown statistic "insnz"`,
		"prog=1":        "prog_name is not a number",
		"reason>0":      "reason is not a number",
		"insns>NaN":     `"NaN" is not a number`,
		"insns>":        "is not a number",
		"":              "empty filter",
		"insns_x<3":     "unknown statistic",
		"@no/such/file": "read filters",
	} {
		if err := (&Query{}).AddFilter(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("filter %q: %v, want %q", s, err, want)
		}
	}
	if _, err := ParseColumns("file,,prog"); err == nil {
		t.Error("an empty column")
	}
	if _, err := ParseSort("insns,^"); err == nil {
		t.Error("an order of nothing")
	}
	for in, want := range map[string]string{
		"":                                   "empty",
		"\n":                                 "empty",
		"file_name,colour\n":                 `1: unknown column "colour"`,
		"file_name,insns_diff\n":             "of a comparison",
		"file_name,prog_name\na.o\n":         "2: 1 columns, the header has 2",
		"prog_name,insns\np,1\n":             "2: a row needs a file_name",
		"file_name,prog_name,insns\na,b,x\n": "2: total_insns \"x\" is not a whole number",
		"file_name,prog_name,insns\na,b,99999999999999999999\n": "is not a whole number",
		"file_name,prog_name,verdict\na,b,maybe\n":              "neither success nor failure",
		"file_name\xff\n":      "not UTF-8",
		"[{]":                  "not JSON of gate verifier",
		`[{"file_name": "a"}]`: "row 1: a row needs",
		`[{"file_name": "a", "prog_name": "b", "verdict": "success", "total_insns": "1"}]`: "row 1: total_insns",
		`[{"file_name": "a", "prog_name": "b", "head": {}}]`:                               "of a comparison",
	} {
		if _, err := Read([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestJoin(t *testing.T) {
	row := func(file, program string) Row { return Row{File: file, Program: program, Accepted: true} }
	shape := func(pairs []Pair) string {
		var out []string
		for _, p := range pairs {
			out = append(out, fmt.Sprintf("%s/%s %v %v", p.File, p.Program, p.Base != nil, p.Head != nil))
		}
		return strings.Join(out, ", ")
	}
	// One file on each side: its name does not matter.
	if got := shape(Join([]Row{row("v2.o", "a"), row("v2.o", "old")}, []Row{row("v3.o", "a"), row("v3.o", "new")})); got != "v3.o/a true true, v3.o/new false true, v2.o/old true false" {
		t.Error(got)
	}
	// Several: programs of one name in different files are different programs.
	if got := shape(Join([]Row{row("x.o", "a"), row("y.o", "a")}, []Row{row("y.o", "a")})); got != "y.o/a true true, x.o/a true false" {
		t.Error(got)
	}
	if got := shape(Join([]Row{row("x.o", "a")}, nil)); got != "x.o/a true false" {
		t.Error(got)
	}
	broken := Join([]Row{{File: "x", Program: "p", Accepted: true}}, []Row{{File: "x", Program: "p"}})
	if !broken[0].Broken() {
		t.Error("accepted in base, rejected in head")
	}
}

// hostile is a row that somebody made to be read wrongly.
func hostile() Row {
	n := 3
	return Row{
		File: "a,b\x1b[31m.o", Program: "p\n\"q\"\u202e", Accepted: false, Outcome: bench.Rejected, Type: "xdp", AttachType: "xdp",
		Reason: "R1, \x1b]0;x\x07", Log: []string{"0: \x1b[2J"}, Values: map[string]float64{"total_insns": 7},
		Functions: []bench.Function{{Name: "f\r\x1b[1m", Stack: &n}, {}},
	}
}

func TestHostileNames(t *testing.T) {
	q := query(t, "file,prog,verdict,insns,reason,stack,mem_peak", "")
	for _, pairs := range [][]Pair{Alone([]Row{hostile()}), Join([]Row{hostile()}, []Row{hostile()}), Join(nil, []Row{hostile()})} {
		var b bytes.Buffer
		for _, write := range []func() error{
			func() error { return q.WriteTable(&b, pairs) },
			func() error { return q.WriteCSV(&b, pairs) },
			func() error { return WriteFunctions(&b, pairs) },
			func() error { return q.WriteJSON(&b, pairs) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range b.String() {
			if r < ' ' && r != '\n' || r == 0x7f {
				t.Fatalf("control character %q in %q", r, b.String())
			}
		}
	}
	// Its CSV has as many fields as any.
	var b bytes.Buffer
	if err := (&Query{}).WriteCSV(&b, Alone([]Row{hostile()})); err != nil {
		t.Fatal(err)
	}
	back, err := Read(b.Bytes())
	if err != nil || len(back) != 1 || back[0].File != "a_b[31m.o" || back[0].Program != "p _q_" {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestJSON(t *testing.T) {
	rows := append(read(t, "head.csv"), Row{
		File: "x.o", Program: "f", Accepted: false, Outcome: bench.NotLoaded, Reason: "no such function",
		Values: map[string]float64{"used_maps": 32, "max_stack_depth": 64}, Functions: []bench.Function{{Name: "f"}, {Name: "sub", Kind: "static"}},
	})
	var b bytes.Buffer
	if err := (&Query{}).WriteJSON(&b, Alone(rows)); err != nil {
		t.Fatal(err)
	}
	back, err := Read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rows, back); d != "" {
		t.Error(d)
	}
	var list []map[string]any
	if err := json.Unmarshal(b.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if last := list[len(list)-1]; last["limit_used"] != 50.0 || last["limit"] != "used_maps" || last["verdict"] != "failure" || last["total_insns"] != nil {
		t.Errorf("%v", last)
	}
	b.Reset()
	if err := (&Query{}).WriteJSON(&b, Join(read(t, "base.csv"), rows)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &list); err != nil || list[0]["base"] == nil || list[0]["head"] == nil {
		t.Errorf("%v, %s", err, b.String())
	}
	if _, err := Read(b.Bytes()); err == nil {
		t.Error("a comparison was read as rows")
	}
	b.Reset()
	if err := (&Query{}).WriteJSON(&b, nil); err != nil || strings.TrimSpace(b.String()) != "[]" {
		t.Errorf("no rows: %q, %v", b.String(), err)
	}
}

func TestFail(t *testing.T) {
	pairs := Join(read(t, "base.csv"), read(t, "head.csv"))
	find := func(program string) *Pair {
		for i := range pairs {
			if pairs[i].Program == program {
				return &pairs[i]
			}
		}
		t.Fatal(program)
		return nil
	}
	parse := func(s string) Filter {
		f, err := ParseFilter(s)
		if err != nil || !f.Numeric() {
			t.Fatal(s, err)
		}
		return f
	}
	if got := parse("insns_pct>5").Say(find("fun_xdp")); got != "insns_pct>5: it is 6598.44%" {
		t.Error(got)
	}
	if got := parse("insns>5000").Say(find("fun_xdp")); got != "" {
		t.Error(got)
	}
	if got := parse("insns_diff!=0").Say(find("xdpfilt_alw_ip")); !strings.Contains(got, "one side") {
		t.Error(got)
	}
	// What nobody measured cannot pass; what is on one side only is another matter.
	if f := parse("memlock_pct>1"); !f.Unknown(find("fun_xdp")) || f.Unknown(find("xdpfilt_alw_ip")) || f.Unknown(find("checked")) {
		t.Error("unknown")
	}
	if f, err := ParseFilter("xdp*"); err != nil || f.Numeric() {
		t.Error("a pattern is no condition")
	}
}

func TestUsed(t *testing.T) {
	r := Row{Values: map[string]float64{"total_insns": 905_000, "max_stack_depth": 512, "used_maps": 3, "total_states": 1e9}}
	if used, of := r.used(); used != 100 || of.Name() != "max_stack_depth" || r.text(lookup("limit_used")) != "100.0% max_stack_depth" {
		t.Errorf("%v of %v", used, of)
	}
	if used, of := (&Row{}).used(); !math.IsNaN(used) || of != nil {
		t.Errorf("%v of %v", used, of)
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "x/y", true}, {"a*", "a", true}, {"a*a", "a", false},
		{"a*a", "aa", true}, {"*b*", "abc", true}, {"*ab", "aab", true}, {"a**b", "ab", true}, {"*a*b*c", "xaybzc", true}, {"*a*b*c", "xaybz", false}, {"[a]", "a", false},
	} {
		if got := glob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("glob(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

// FuzzRead is that no file breaks the reader, and that what it read is written and
// read again as it was.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"base.csv", "compare.csv"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`[{"file_name":"a.o","prog_name":"p","verdict":"success","total_insns":3,"functions":[{"name":"f","stack_depth":8}]}]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		rows, err := Read(in)
		if err != nil {
			return
		}
		q := &Query{}
		var table, csv, again bytes.Buffer
		if q.WriteTable(&table, q.Select(Join(rows, rows))) != nil || q.WriteCSV(&csv, Alone(rows)) != nil {
			t.Fatal("not written")
		}
		back, err := Read(csv.Bytes())
		if err != nil || len(back) != len(rows) {
			t.Fatalf("%d rows became %d: %v\n%s", len(rows), len(back), err, csv.String())
		}
		if q.WriteCSV(&again, Alone(back)) != nil || again.String() != csv.String() {
			t.Errorf("%q was written again as %q", csv.String(), again.String())
		}
	})
}
