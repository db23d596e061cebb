//go:build linux

package bpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// censusLike is emptyLike of a program that also counts its runs on each CPU, in the
// first entry of a per-CPU array: the kernel tells their sum only.
func censusLike(spec *ebpf.ProgramSpec, counts *ebpf.Map) *ebpf.ProgramSpec {
	out := emptyLike(spec)
	out.Name = "gate_census"
	body := out.Instructions
	body[0] = body[0].WithSymbol("out")
	out.Instructions = append(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.R10, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.FnMapLookupElem.Call(),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R2, 1),
		asm.StoreMem(asm.R0, 0, asm.R2, asm.DWord),
	}, body...)
	return out
}

// Census has the work done once with a program at the hook that counts on which CPUs
// it runs, and tells that in Path. Nothing else is kept of it.
func (a *Attached) Census() error {
	return a.s.do(a.census)
}

func (a *Attached) census() error {
	// Without an empty program (struct_ops), base is what work needs to run.
	who := 0
	if a.floor {
		who = len(a.sides)
	}
	p, err := a.load(who)
	if err != nil {
		return err
	}
	defer func() { p.close() }()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Name: "gate_census", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("make the map of the census: %w", err)
	}
	defer counts.Close()
	if a.floor {
		census, err := ebpf.NewProgram(censusLike(p.spec, counts))
		if err != nil {
			return fmt.Errorf("load the census: %w", explainLoad(p.spec.Type, err))
		}
		p.prog.Close()
		p.prog, p.name = census, "the census"
	}
	if err := p.hang(a.place); err != nil {
		return err
	}
	if err := a.unwatched(p.iter...); err != nil {
		return err
	}
	var cpus []uint64
	if err := counts.Lookup(uint32(0), &cpus); err != nil {
		return fmt.Errorf("read the census: %w", err)
	}
	a.Path = a.hooks[len(a.hooks)-1].String() + spread(cpus)
	return nil
}

// unwatched has the work done and counts nothing.
func (a *Attached) unwatched(iterators ...iterator) error {
	work, err := a.worker.Ready(0)
	if err != nil {
		return err
	}
	defer work.Close()
	if _, err := work.Do(); err != nil {
		return err
	}
	for _, it := range iterators {
		if _, err := it.readAll(); err != nil {
			return err
		}
	}
	return nil
}

// spread says how runs fall on CPUs: ", 61% on CPU 1 of 2".
func spread(runs []uint64) string {
	var total, most uint64
	used := 0
	for _, n := range runs {
		total, most = total+n, max(most, n)
		if n > 0 {
			used++
		}
	}
	busiest := slices.Index(runs, most)
	switch {
	case total == 0:
		return ""
	case used == 1:
		return fmt.Sprintf(", on CPU %d", busiest)
	}
	return fmt.Sprintf(", on %d CPUs, %.0f%% on CPU %d", used, 100*float64(most)/float64(total), busiest)
}
