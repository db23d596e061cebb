//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A plant is a program, and the same with one slowdown.
type plant struct {
	kind       string
	base, head string
	lines      []int // of head, that were planted or edited
}

// plants are the kinds of slowdowns.
var plants = []string{"loop", "bound", "helper", "map", "division"}

// statements is how many a program has: some 1,000 instructions.
const statements = 130

// A gardener writes programs of straight code, conditions, bounded loops, helper calls and operations on
// maps, in subprograms, all of which run for each packet. What it plants changes no other value, so that
// the rest of the program runs as before.
type gardener struct{ *rand.Rand }

// A statement is some lines; of those that a slowdown may edit, to what.
type statement struct {
	lines []string
	kind  string // of the slowdown
	at    int    // the line that it edits
	slow  string
}

// newPlant writes a program, and the same with a slowdown of the kind at a random line.
func newPlant(seed uint64, kind string) plant {
	g := gardener{rand.New(rand.NewPCG(seed, 7))}
	const functions = 4 // the last is the program
	var body [functions][]statement
	var editable [][2]int
	for i := range statements {
		f := i * functions / statements
		s := g.statement()
		if s.kind == kind {
			editable = append(editable, [2]int{f, len(body[f])})
		}
		body[f] = append(body[f], s)
	}
	p := plant{kind: kind}
	order := []int{0, 1, 2}
	p.base, _ = write(body[:], order)
	if len(editable) > 0 {
		at := editable[g.IntN(len(editable))]
		s := &body[at[0]][at[1]]
		s.lines = slices.Clone(s.lines)
		s.lines[s.at] = s.slow + mark
	} else {
		f := g.IntN(functions)
		body[f] = slices.Insert(body[f], g.IntN(len(body[f])), statement{lines: g.slowdown(kind)})
	}
	if g.IntN(2) == 0 { // and somebody put the functions into another order
		g.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	p.head, p.lines = write(body[:], order)
	return p
}

// mark stands behind planted lines until they are counted.
const mark = "\x00"

// write is the source, and the numbers of its lines that were planted.
func write(body [][]statement, order []int) (string, []int) {
	var b strings.Builder
	var planted []int
	n := 0
	line := func(s string) {
		n++
		if text, ok := strings.CutSuffix(s, mark); ok {
			planted = append(planted, n)
			s = text
		}
		b.WriteString(s + "\n")
	}
	for s := range strings.Lines(prelude) {
		line(strings.TrimSuffix(s, "\n"))
	}
	last := len(body) - 1
	for _, f := range append(append([]int(nil), order...), last) {
		if f == last {
			line(`SEC("xdp")`)
			line("int planted(struct xdp_md *ctx)")
		} else {
			line(fmt.Sprintf("static __noinline __u64 part%d(__u64 a, __u64 b)", f))
		}
		line("{")
		if f == last {
			line("\tunsigned char *data = (void *)(long)ctx->data;")
			line("\tif (data + 32 > (unsigned char *)(long)ctx->data_end)")
			line("\t\treturn XDP_ABORTED;")
			line("\t__u64 a = *(__u64 *)(data + 8), b = *(__u64 *)(data + 24);")
		}
		line("\t__u64 c = a >> 3, d = b ^ 0x9e3779b9, buf[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *v;")
		line("\t__u32 k = 0;")
		for i, s := range body[f] {
			for _, l := range s.lines {
				line("\t" + l)
			}
			if f == last && i%8 == 0 && i/8 < last {
				line(fmt.Sprintf("\t%c ^= part%d(a, d);", 'a'+i/8, i/8))
			}
		}
		if f == last {
			line("\tbpf_map_update_elem(&small, &k, &a, BPF_ANY);")
			line("\treturn (a ^ b ^ c ^ d) == 42 ? XDP_DROP : XDP_PASS;")
		} else {
			line("\treturn a ^ b ^ c ^ d;")
		}
		line("}")
		line("")
	}
	line(`char LICENSE[] SEC("license") = "GPL";`)
	return b.String(), planted
}

const prelude = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define KEEP(x) asm volatile("" : : "r"(x))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} small SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} table SEC(".maps");

`

// statement is one of the program's own. Some texts stand in it many times.
func (g gardener) statement() statement {
	v := func() string { return string("abcd"[g.IntN(4)]) }
	x, y, z := v(), v(), v()
	switch g.IntN(12) {
	case 0, 1, 2:
		return statement{lines: []string{fmt.Sprintf("%s = %s * %d + (%s >> %d);", x, y, 3+2*g.IntN(20), z, 1+g.IntN(9))}}
	case 3:
		return statement{lines: []string{x + "++;", y + " ^= " + x + ";"}}
	case 4, 5:
		return statement{lines: []string{fmt.Sprintf("if (%s & %d)", x, 1<<g.IntN(6)), fmt.Sprintf("\t%s += %s ^ %d;", y, z, g.IntN(99)), "else", fmt.Sprintf("\t%s -= %s;", y, z)}}
	case 6:
		return statement{lines: []string{fmt.Sprintf("%s = %s / (%s | 1);", x, y, z)}}
	case 7:
		return statement{lines: []string{fmt.Sprintf("k = %s & 63;", x), "v = bpf_map_lookup_elem(&small, &k);", "if (v)", "\t*v += 1;"}}
	case 8:
		return statement{lines: []string{fmt.Sprintf("%s += (__u32)bpf_csum_diff(0, 0, (void *)buf, %d, %s);", x, 8*(1+g.IntN(4)), y)}}
	case 9:
		return statement{lines: []string{fmt.Sprintf("k = %s & 63;", x), "bpf_map_update_elem(&small, &k, &a, BPF_ANY);"},
			kind: "map", at: 1, slow: "bpf_map_update_elem(&table, &k, &a, BPF_ANY);"}
	case 10:
		n := 3 + g.IntN(6)
		loop := "for (int i = 0; i < %d + (int)(%s & 3); i++) {"
		return statement{lines: []string{fmt.Sprintf(loop, n, x), fmt.Sprintf("\tKEEP(%s + i * %d);", y, 1+g.IntN(99)), "}"},
			kind: "bound", slow: fmt.Sprintf(loop, n*(10+g.IntN(30)), x)}
	}
	return statement{lines: []string{fmt.Sprintf("buf[%d] = %s;", g.IntN(8), x)}}
}

// slowdown is what is planted where nothing is edited.
func (g gardener) slowdown(kind string) []string {
	v := string("abcd"[g.IntN(4)])
	switch kind {
	case "loop":
		return []string{fmt.Sprintf("for (int i = 0; i < %d; i++)", 60+g.IntN(200)) + mark, fmt.Sprintf("\tKEEP(%s + i * %d);", v, g.IntN(99)) + mark}
	case "helper":
		return []string{fmt.Sprintf("KEEP(bpf_csum_diff(0, 0, (void *)buf, 64, bpf_csum_diff(0, 0, (void *)buf, 64, bpf_csum_diff(0, 0, (void *)buf, 64, %s))));", v) + mark}
	}
	chain := v
	for i := range 14 { // each waits for the one before, and stays a large number
		chain = fmt.Sprintf("(%s) * 0x9e3779b97f4a7c15 / (%s >> %d | %d)", chain, v, 48+g.IntN(12), 3+2*i)
	}
	return []string{"KEEP(" + chain + ");" + mark}
}
