//go:build linux

package bpf

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counters are those of one instrumented load, shared with the kernel.
type counters struct {
	in   *instrumented
	mem  []byte
	live []uint64 // mem: how often each block ran since the load
	was  []uint64 // live at the last start

	pass tally
}

// A tally is what one pass over all packets executed.
type tally struct {
	blocks []uint64       // executions, over all packets
	insns  map[int]uint64 // instructions, by packet
}

// count maps the counters of an instrumented load.
func (in *instrumented) count(l *Loaded) (*counters, error) {
	m := l.coll.Maps[counterMap]
	if m == nil {
		return nil, fmt.Errorf("%s was loaded without counters", l.Name)
	}
	mem, err := unix.Mmap(m.FD(), 0, 8*in.counters, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the counters: %w (needs Linux 5.5)", err)
	}
	c := &counters{in: in, mem: mem, live: unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), in.counters)}
	c.was = make([]uint64, in.counters)
	c.reset()
	return c, nil
}

// reset begins a pass.
func (c *counters) reset() {
	c.pass = tally{make([]uint64, c.in.counters), map[int]uint64{}}
}

// start is called before a packet's run, so that warm-up passes do not count.
func (c *counters) start() {
	if c != nil {
		copy(c.was, c.live)
	}
}

// stop adds what ran since start.
func (c *counters) stop(packet int) {
	if c == nil {
		return
	}
	insns := uint64(0)
	for _, p := range c.in.programs {
		for b, bl := range p.flow.blocks {
			n := c.live[p.first+b] - c.was[p.first+b]
			c.pass.blocks[p.first+b] += n
			if !p.background[b] {
				insns += n * uint64(bl.end-bl.start)
			}
		}
	}
	c.pass.insns[packet] += insns
}

func (c *counters) close() {
	if c != nil {
		_ = unix.Munmap(c.mem)
	}
}
