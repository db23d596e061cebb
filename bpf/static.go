//go:build linux

package bpf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// Static returns the static measures of a program, one sample of round 0 each,
// in the order of [bench.Measures]. They are of this one program: a program that
// it tail-calls has measures of its own.
//
// The program must have been loaded with LoadOptions.Stats. A measure that this
// kernel does not tell is left out, never 0:
//
//   - verified_insns: the verifier's log, else program info (Linux 5.16,
//     aba64c7da983).
//   - peak_states, total_states: the verifier's log (Linux 5.2, 06ee7115b0d1).
//   - stack_depth (bytes): the verifier's log. It lists the depth of the program
//     and of each subprogram; this is their sum, as veristat reports it, and so
//     may exceed the 512 bytes that one chain of calls may take.
//   - verification_time (microseconds): the verifier's log.
//   - xlated_insns: program info; an ld_imm64 counts as two, as in the kernel's
//     own limit.
//   - jited_bytes: program info; absent where programs are interpreted.
//   - memlock (bytes): /proc/self/fdinfo; the pages of the program itself, not of
//     its maps.
func Static(l *Loaded) ([]bench.Result, error) {
	values, err := parseStats(l.Log)
	if err != nil {
		return nil, fmt.Errorf("statistics of %s: %w", l.Name, err)
	}
	info, err := l.Program.Info()
	if err != nil {
		return nil, fmt.Errorf("program info of %s: %w", l.Name, err)
	}
	if n, ok := info.VerifiedInstructions(); ok && n > 0 {
		if _, logged := values[bench.VerifiedInsns]; !logged {
			values[bench.VerifiedInsns] = float64(n)
		}
	}
	if n, err := info.TranslatedSize(); err == nil {
		values[bench.XlatedInsns] = float64(n / asm.InstructionSize)
	}
	if n, err := info.JitedSize(); err == nil && n > 0 {
		values[bench.JitedBytes] = float64(n)
	}
	if n, ok := info.Memlock(); ok {
		values[bench.Memlock] = float64(n)
	}
	var out []bench.Result
	for _, m := range bench.Measures() {
		v, ok := values[m.Name]
		if !m.Static || !ok {
			continue
		}
		out = append(out, bench.Result{
			Benchmark: l.Name, Program: l.Name, Measure: m.Name, Kind: bench.Static,
			Samples: []bench.Sample{{Value: v, Offset: -1}},
		})
	}
	return out, nil
}

// parseStats reads the statistics at the end of a verifier log
// (print_verification_stats in kernel/bpf/verifier.c). Lines that it does not
// know, and those that an older kernel does not print, are passed over; a line
// that it knows and cannot read is an error, since a measure that silently
// vanished would look like a kernel that does not have it.
func parseStats(log string) (map[string]float64, error) {
	values := make(map[string]float64)
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		var err error
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "verification time ") && strings.HasSuffix(line, " usec"):
			err = put(values, bench.VerificationUS, f[2])
		case strings.HasPrefix(line, "stack depth ") && len(f) >= 3 && f[2] != "max":
			err = putSum(values, bench.StackDepth, f[2])
		case strings.HasPrefix(line, "processed ") && len(f) >= 3 && f[2] == "insns":
			err = put(values, bench.VerifiedInsns, f[1])
			for i := 3; err == nil && i+1 < len(f); i++ {
				switch f[i] {
				case bench.TotalStates, bench.PeakStates:
					err = put(values, f[i], f[i+1])
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("verifier log: line %q: %w", line, err)
		}
	}
	return values, nil
}

func put(values map[string]float64, name, number string) error {
	n, err := strconv.ParseUint(number, 10, 53)
	if err != nil {
		return err
	}
	values[name] = float64(n)
	return nil
}

// putSum adds the depths of "64+0+104".
func putSum(values map[string]float64, name, numbers string) error {
	sum := uint64(0)
	for s := range strings.SplitSeq(numbers, "+") {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return err
		}
		sum += n
	}
	values[name] = float64(sum)
	return nil
}
