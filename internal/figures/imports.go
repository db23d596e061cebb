//go:build linux

package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"
)

// imports times the real command over files of benchfmt of three sizes. What comes out
// of it is as large for each, since it keeps no more samples than a run may have.
func imports(l *lab) ([]row, error) {
	const target = 200 // MB/s
	gate, err := gateBinary()
	if err != nil {
		return nil, err
	}
	var all []usage
	for _, size := range importSizes {
		file := filepath.Join(l.temp, fmt.Sprintf("%d.txt", size))
		if err := writeBenchfmt(file, size<<20, l.newSeed()); err != nil {
			return nil, err
		}
		var best usage
		for range 3 {
			u, err := used(exec.CommandContext(l.ctx, gate, "import", "--commit", fmt.Sprintf("%040x", size), "-o", filepath.Join(l.temp, "run.json.gz"), file))
			if err != nil {
				return nil, err
			}
			if best.took == 0 || u.took < best.took {
				best.took = u.took
			}
			best.memory = max(best.memory, u.memory)
		}
		if err := os.Remove(file); err != nil {
			return nil, err
		}
		all = append(all, best)
	}
	small, usual, large := all[0], all[1], all[2]
	speed := float64(importSizes[1]) / usual.took.Seconds()
	// What an import costs whatever its size is in both.
	each := float64(importSizes[2]-importSizes[1]) / (large.took - usual.took).Seconds()
	return []row{
		{
			what: fmt.Sprintf("%d MB", importSizes[1]), measured: fmt.Sprintf("%.2f s, %.0f MB/s", usual.took.Seconds(), speed),
			beside: fmt.Sprintf("%d MB: %.2f s", importSizes[0], small.took.Seconds()), target: fmt.Sprintf("≥ %d MB/s", target), met: meets(speed >= target),
		},
		{
			what: fmt.Sprintf("%d MB", importSizes[2]), measured: fmt.Sprintf("%.2f s", large.took.Seconds()),
			beside: fmt.Sprintf("beyond %d MB: %.0f MB/s", importSizes[1], each),
		},
		{
			what: fmt.Sprintf("memory of %d MB, at most", importSizes[2]), measured: fmt.Sprintf("%d MB", large.memory>>10),
			beside: fmt.Sprintf("%d MB: %d MB", importSizes[1], usual.memory>>10), ratio: fmt.Sprintf("%.2f×", float64(large.memory)/float64(usual.memory)),
			target: "the same", met: meets(float64(large.memory) <= 1.1*float64(usual.memory)),
		},
	}, nil
}

// importSizes are those of the files in MB, from small to large.
var importSizes = [3]int{10, 100, 400}

// usage is what a process took: its time, and its greatest memory in KB.
type usage struct {
	took   time.Duration
	memory int64
}

func used(cmd *exec.Cmd) (usage, error) {
	// A process inherits the greatest memory of the one that it was before its exec: ours.
	debug.FreeOSMemory()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	of, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, fmt.Errorf("%s: %v", cmd, cmd.ProcessState)
	}
	return usage{took, of.Maxrss}, nil
}

// writeBenchfmt writes the repeated results of 2000 benchmarks with three units.
func writeBenchfmt(file string, size int, seed uint64) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i, n := 0, 0; n < size; i++ {
		k, err := fmt.Fprintf(out, "BenchmarkThing/case=%d-8   \t%8d\t%10.1f ns/op\t%8d B/op\t%6d allocs/op\n", i%2000, i, 100+rnd.NormFloat64(), i%9999, i%99)
		if err != nil {
			return err
		}
		n += k
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}
