//go:build linux

package bpf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// A verifierLog is what the statistics of a verifier log say.
type verifierLog struct {
	values map[string]float64 // by measure
	// functions are the program and its subprograms in the kernel's order, each
	// with its own stack; from Linux 7.3 on with their names and instructions, too.
	functions []bench.Function
}

// parseLog reads the statistics at the end of a verifier log
// (print_verification_stats in kernel/bpf/verifier.c). Lines that it does not
// know, and those that an older kernel does not print, are passed over; a line
// that it knows and cannot read is an error, since a measure that silently
// vanished would look like a kernel that does not have it.
func parseLog(log string) (verifierLog, error) {
	v := verifierLog{values: map[string]float64{}}
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		var err error
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "verification time ") && strings.HasSuffix(line, " usec"):
			err = v.put(bench.VerificationUS, f[2])
		case strings.HasPrefix(line, "stack depth ") && len(f) >= 3:
			err = v.stacks(f[2:])
		case strings.HasPrefix(line, "subprog ") && len(f) == 10 && f[4] == "insns_self":
			err = v.function(f)
		case strings.HasPrefix(line, "processed ") && len(f) >= 3 && f[2] == "insns":
			err = v.put(bench.VerifiedInsns, f[1])
			for i := 3; err == nil && i+1 < len(f); i++ {
				if name, ok := processed[f[i]]; ok {
					err = v.put(name, f[i+1])
				}
			}
		}
		if err != nil {
			return verifierLog{}, fmt.Errorf("verifier log: line %q: %w", line, err)
		}
	}
	return v, nil
}

// processed are the words of the last line, and the measures that follow them.
var processed = map[string]string{
	"total_states":        bench.TotalStates,
	"peak_states":         bench.PeakStates,
	"max_states_per_insn": bench.MaxStatesPerInsn,
	"mark_read":           bench.MaxMarkReadLen,
}

func (v *verifierLog) put(name, number string) error {
	n, err := strconv.ParseUint(number, 10, 53)
	if err != nil {
		return err
	}
	v.values[name] = float64(n)
	return nil
}

// stacks reads "64+0+104", "64+0+104 max 176" or "max 176".
func (v *verifierLog) stacks(f []string) error {
	if f[0] != "max" {
		v.functions = nil
		sum := uint64(0)
		for s := range strings.SplitSeq(f[0], "+") {
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil {
				return err
			}
			sum += n
			stack := int(n)
			v.functions = append(v.functions, bench.Function{Stack: &stack})
		}
		v.values[bench.StackDepth] = float64(sum)
		f = f[1:]
	}
	if len(f) == 2 && f[0] == "max" {
		return v.put(bench.MaxStackDepth, f[1])
	}
	return nil
}

// function reads "subprog 1 (name) static insns_self 5 insns_total 5 stack 104".
func (v *verifierLog) function(f []string) error {
	if f[6] != "insns_total" || f[8] != "stack" {
		return fmt.Errorf("expected insns_total and stack")
	}
	var n [4]int
	for i, at := range []int{1, 5, 7, 9} {
		x, err := strconv.ParseUint(f[at], 10, 31)
		if err != nil {
			return err
		}
		n[i] = int(x)
	}
	if n[0] == 0 {
		v.functions, v.values[bench.StackDepth] = nil, 0
	}
	if n[0] != len(v.functions) {
		return fmt.Errorf("number %d follows %d others", n[0], len(v.functions))
	}
	fn := bench.Function{Kind: f[3], InsnsSelf: &n[1], InsnsTotal: &n[2], Stack: &n[3]}
	if name := strings.Trim(f[2], "()"); name != "<unknown>" {
		fn.Name = name
	}
	v.functions = append(v.functions, fn)
	v.values[bench.StackDepth] += float64(n[3])
	return nil
}
