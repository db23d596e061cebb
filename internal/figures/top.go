//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// top runs the real command beside 500 programs that are all at work. It is built
// into the directory of this one by scripts/bench.sh.
func top(l *lab) ([]row, error) {
	const count, seconds, target = 500, 10, 2.0
	gate, err := gateBinary()
	if err != nil {
		return nil, err
	}
	var programs []*ebpf.Program
	defer func() {
		for _, p := range programs {
			p.Close()
		}
	}()
	for i := range count {
		p, err := filter(fmt.Sprintf("gate_figures_top_%d", i))
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	ctx, cancel := context.WithTimeout(l.ctx, seconds*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, gate, "top", "--format", "json")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout = &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	busy := make(chan error)
	go func() {
		busy <- func() error {
			packet := make([]byte, 64)
			for tick := time.NewTicker(100 * time.Millisecond); ; {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				for _, p := range programs {
					if _, err := p.Run(&ebpf.RunOptions{Data: packet}); err != nil {
						return err
					}
				}
			}
		}()
	}()
	err = cmd.Wait()
	took := time.Since(start)
	cancel()
	if e := <-busy; e != nil {
		return nil, e
	}
	if l.ctx.Err() == nil && err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("gate top: %w", err)
	}
	// What it did not do would cost nothing.
	tables, whole := bytes.Count(out.Bytes(), []byte("\n")), bytes.Count(out.Bytes(), []byte(`"gate_figures_top_0"`))
	if tables < seconds/2 || whole < tables {
		return nil, fmt.Errorf("gate top wrote %d tables, and %d of them have the programs", tables, whole)
	}
	ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, fmt.Errorf("gate top: %v", cmd.ProcessState)
	}
	used := time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	share := 100 * used.Seconds() / took.Seconds()
	return []row{{
		what: fmt.Sprintf("CPU of gate top with %d programs, a reading a second", count), measured: fmt.Sprintf("%.2f%%", share),
		beside: fmt.Sprintf("%.0f ms in %.0f s, its start included", used.Seconds()*1e3, took.Seconds()),
		target: fmt.Sprintf("< %.0f%%", target), met: meets(share < target),
	}}, nil
}

// filter loads a socket filter whose name only its BTF has whole.
func filter(name string) (*ebpf.Program, error) {
	fn := &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "skb", Type: &btf.Pointer{Target: &btf.Struct{Name: "__sk_buff"}}}},
	}}
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 1).WithSymbol(name), fn), asm.Return()},
	})
}
