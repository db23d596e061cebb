//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/perf"
	"golang.org/x/sys/unix"
)

// A drainer empties a map between readings. With collect, it hands over what it
// takes out; without, it may be faster.
type drainer interface {
	empty(collect func([]byte)) error
	close()
}

// drainer makes the drainer of one of the program's maps.
func (l *Loaded) drainer(name string) (drainer, error) {
	m := l.coll.Maps[name]
	if m == nil {
		return nil, fmt.Errorf("%s uses no map %q: it uses %s", l.Name, name, strings.Join(l.Maps(), ", "))
	}
	switch m.Type() {
	case ebpf.Queue, ebpf.Stack:
		return newQueueDrainer(m)
	case ebpf.RingBuf:
		return newRingDrainer(m)
	case ebpf.PerfEventArray:
		r, err := perf.NewReader(m, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("read perf events of %s: %w", name, err)
		}
		return &perfDrainer{r: r}, nil
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.LPMTrie:
		return &hashDrainer{l: l, m: m, name: name}, nil
	}
	return nil, fmt.Errorf("a map of type %s cannot be emptied (%s)", m.Type(), name)
}

// drainerAmong is drainer where one of the sides must use the map, but not each:
// what is drained is said once for all, and one of them may be older than the map.
func (l *Loaded) drainerAmong(name string, sides []Side) (drainer, error) {
	if l.coll.Maps[name] == nil && slices.ContainsFunc(sides, func(s Side) bool { return s.Object.uses(l.Name, name) }) {
		return nothing{}, nil
	}
	return l.drainer(name)
}

// nothing is the drainer of a map that this side does not have.
type nothing struct{}

func (nothing) empty(func([]byte)) error { return nil }
func (nothing) close()                   {}

// Drainable names the maps of a program that fill up as it runs and that somebody
// else empties where it is at work: queues, stacks, ring buffers and perf event
// arrays.
func (o *Object) Drainable(program string) []string {
	spec, err := o.prune(program)
	if err != nil {
		return nil // told when it is loaded
	}
	var names []string
	for name, m := range spec.Maps {
		switch m.Type {
		case ebpf.Queue, ebpf.Stack, ebpf.RingBuf, ebpf.PerfEventArray:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// uses tells whether the program, or one that it may tail-call, uses the map.
func (o *Object) uses(program, name string) bool {
	spec, err := o.prune(program)
	return err == nil && spec.Maps[name] != nil
}

// A queueDrainer pops a queue or stack until it is empty: inside the kernel by a
// generated raw tracepoint program, since a thousand system calls a reading cost
// more than the reading.
type queueDrainer struct {
	m    *ebpf.Map
	prog *ebpf.Program // nil: kernels before bpf_loop (5.17, e6f2dd0f8067)
	run  *testRun
	buf  []byte
}

func newQueueDrainer(m *ebpf.Map) (*queueDrainer, error) {
	d := &queueDrainer{m: m, buf: make([]byte, m.ValueSize())}
	const maxStack, maxLoops = 256, 1 << 23 // BPF_MAX_LOOPS: bpf_loop refuses more
	size := (int(m.ValueSize()) + 7) &^ 7
	if size > maxStack || m.MaxEntries() > maxLoops {
		return d, nil
	}
	// bpf_loop takes a callback, and callbacks need BTF.
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	ptr := &btf.Pointer{Target: &btf.Void{}}
	fn := func(name string, linkage btf.FuncLinkage, params ...btf.FuncParam) *btf.Func {
		return &btf.Func{Name: name, Linkage: linkage, Type: &btf.FuncProto{Return: u32, Params: params}}
	}
	entry := fn("gate_drain", btf.GlobalFunc, btf.FuncParam{Name: "ctx", Type: ptr})
	pop := fn("pop", btf.StaticFunc, btf.FuncParam{Name: "index", Type: u32}, btf.FuncParam{Name: "ctx", Type: ptr})
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gate_drain", Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Imm(asm.R1, int32(m.MaxEntries())).WithSymbol("gate_drain"), entry),
			asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("pop"),
			asm.Mov.Imm(asm.R3, 0),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnLoop.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
			// pop(index, ctx): 0 goes on, 1 ends the loop.
			btf.WithFuncMetadata(asm.LoadMapPtr(asm.R1, m.FD()).WithSymbol("pop"), pop),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -int32(size)),
			asm.FnMapPopElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "more"),
			asm.Mov.Imm(asm.R0, 1),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("more"),
			asm.Return(),
		},
	})
	if err != nil {
		return d, nil
	}
	d.prog, d.run = p, newTestRun(p.FD(), nil, make([]byte, 8), 0)
	return d, nil
}

func (d *queueDrainer) empty(collect func([]byte)) error {
	if d.prog != nil && collect == nil {
		_, err := again(func() error {
			_, _, err := d.run.call(0)
			return err
		})
		return err
	}
	for {
		if err := d.m.LookupAndDelete(nil, &d.buf); errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if collect != nil {
			collect(d.buf)
		}
	}
}

func (d *queueDrainer) close() { d.prog.Close() }

// A ringDrainer moves the consumer of a ring buffer up to its producer. Layout:
// kernel/bpf/ringbuf.c, a page with the consumer's position (writable), a page
// with the producer's, then the data mapped twice.
type ringDrainer struct {
	cons, prod []byte
	size       int
}

func newRingDrainer(m *ebpf.Map) (*ringDrainer, error) {
	page := unix.Getpagesize()
	cons, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map a ring buffer: %w", err)
	}
	prod, err := unix.Mmap(m.FD(), int64(page), page+2*int(m.MaxEntries()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(cons)
		return nil, fmt.Errorf("map a ring buffer: %w", err)
	}
	return &ringDrainer{cons, prod, int(m.MaxEntries())}, nil
}

func (d *ringDrainer) empty(collect func([]byte)) error {
	end := binary.NativeEndian.Uint64(d.prod)
	if collect != nil {
		data := d.prod[unix.Getpagesize():]
		for at := binary.NativeEndian.Uint64(d.cons); at < end; {
			const header, discard = 8, 1 << 30
			rec := data[int(at)&(d.size-1):]
			n := binary.NativeEndian.Uint32(rec)
			size := int(n &^ (discard | 1<<31))
			if n&discard == 0 {
				collect(rec[header : header+size])
			}
			at += uint64((header + size + 7) &^ 7)
		}
	}
	*(*uint64)(unsafe.Pointer(&d.cons[0])) = end
	return nil
}

func (d *ringDrainer) close() {
	_ = unix.Munmap(d.cons)
	_ = unix.Munmap(d.prod)
}

// A perfDrainer reads a perf event array; without an open reader the program's
// bpf_perf_event_output fails early, and that would be measured.
type perfDrainer struct {
	r   *perf.Reader
	rec perf.Record
}

func (d *perfDrainer) empty(collect func([]byte)) error {
	for {
		d.r.SetDeadline(time.Unix(1, 0)) // do not wait
		if err := d.r.ReadInto(&d.rec); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
		if collect != nil && d.rec.LostSamples == 0 {
			collect(d.rec.RawSample)
		}
	}
}

func (d *perfDrainer) close() { d.r.Close() }

// A hashDrainer deletes every key, and puts back what the config fills in. It
// collects keys with their values (of every CPU, in a per-CPU map), in their
// order as bytes: the order of a hash map is another in every load.
type hashDrainer struct {
	l    *Loaded
	m    *ebpf.Map
	name string
}

func (d *hashDrainer) empty(collect func([]byte)) error {
	var entries [][]byte
	for {
		key, err := d.m.NextKeyBytes(nil)
		if err != nil {
			return err
		}
		if key == nil {
			break
		}
		if collect != nil {
			e, err := d.entry(key)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		if err := d.m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	slices.SortFunc(entries, bytes.Compare)
	for _, e := range entries {
		collect(e)
	}
	return d.l.fill(func(name string) bool { return name == d.name })
}

func (d *hashDrainer) entry(key []byte) ([]byte, error) {
	e := slices.Clone(key)
	if perCPU(d.m.Type()) {
		var values [][]byte
		if err := d.m.Lookup(key, &values); err != nil {
			return nil, err
		}
		return append(e, bytes.Join(values, nil)...), nil
	}
	value, err := d.m.LookupBytes(key)
	return append(e, value...), err
}

func (d *hashDrainer) close() {}
