//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/stats"
)

// why reads which line reports name first, of the example and of programs with a planted slowdown.
func why(l *lab) ([]row, error) {
	example, err := whyExample(l)
	if err != nil {
		return nil, err
	}
	planted, err := whyPlanted(l)
	return append([]row{example}, planted...), err
}

// named is the line that a report names first.
var named = regexp.MustCompile(`(?m)^why: .*?\.bpf\.c:(\d+)  (.*)$`)

func whyExample(l *lab) (row, error) {
	const runs = 20
	base, err := l.example("v2_fizzbuzz")
	if err != nil {
		return row{}, err
	}
	head, err := l.example("v3_fibonacci")
	if err != nil {
		return row{}, err
	}
	b, err := l.benchmark("fun_xdp/worst")
	if err != nil {
		return row{}, err
	}
	right := 0
	for range runs {
		report, err := l.report(b, gate.DefaultPolicy(), base, head)
		if err != nil {
			return row{}, err
		}
		text, err := reportText(report)
		if err != nil {
			return row{}, err
		}
		if m := named.FindStringSubmatch(text); m != nil && strings.HasPrefix(m[2], "while (b < n) {") {
			right++
		}
	}
	return row{
		what: "v2→v3: the loop's line is named first", measured: fmt.Sprintf("%d of %d", right, runs), target: "all", met: meets(right == runs),
	}, nil
}

func whyPlanted(l *lab) ([]row, error) {
	const most, within, target = 100, 2 * time.Minute, 0.95
	var right, silent, all int
	var insns []float64
	wrong := map[string]int{}
	for start := time.Now(); all < most && time.Since(start) < within; all++ {
		seed := l.newSeed()
		p := newPlant(seed, plants[all%len(plants)])
		base, head, err := l.compilePlant(p)
		if err != nil {
			return nil, err
		}
		report, err := l.report(plantedBenchmark, gate.DefaultPolicy(), base, head)
		if err != nil {
			return nil, fmt.Errorf("%s planted with seed %d: %w", p.kind, seed, err)
		}
		for _, c := range report.Comparisons {
			if c.Measure == bench.Insns && c.Base != nil {
				insns = append(insns, *c.Base)
			}
		}
		text, err := reportText(report)
		if err != nil {
			return nil, err
		}
		m := named.FindStringSubmatch(text)
		if m == nil {
			silent++
			continue
		}
		if n, _ := strconv.Atoi(m[1]); slices.Contains(p.lines, n) {
			right++
			continue
		}
		wrong[p.kind]++
		fmt.Fprintf(os.Stderr, "%s planted in line %v with seed %d:\n%s", p.kind, p.lines, seed, text)
	}
	var kinds []string
	for _, k := range plants {
		if wrong[k] > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", wrong[k], k))
		}
	}
	beside := fmt.Sprintf("%.0f executed instructions (median); %d regressions with no line; wrong: %s", stats.Median(insns), silent, orNoneWrong(kinds))
	return []row{{
		what: "planted slowdowns whose line is named first", measured: fmt.Sprintf("%d of %d", right, all), beside: beside,
		target: "95%", met: meets(float64(right) >= target*float64(all)),
	}}, nil
}

func orNoneWrong(kinds []string) string {
	if len(kinds) == 0 {
		return "none"
	}
	return strings.Join(kinds, ", ")
}

// plantedBenchmark drives what a gardener wrote.
var plantedBenchmark = bench.Benchmark{
	Name: "planted/packet", Program: "planted", Expect: "XDP_PASS",
	Packets: [][]byte{[]byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00 whatever a packet holds, of which two words are read")},
}

// compilePlant compiles both.
func (l *lab) compilePlant(p plant) (base, head *bpf.Object, err error) {
	var objects [2]*bpf.Object
	for i, source := range []string{p.base, p.head} {
		dir, err := os.MkdirTemp(l.temp, "plant-")
		if err != nil {
			return nil, nil, err
		}
		file := filepath.Join(dir, "planted.bpf.c")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			return nil, nil, err
		}
		if objects[i], err = l.object(file); err != nil {
			return nil, nil, err
		}
	}
	return objects[0], objects[1], nil
}

func reportText(r *gate.Report) (string, error) {
	var b bytes.Buffer
	err := render.Text(&b, r, render.Options{})
	return b.String(), err
}
