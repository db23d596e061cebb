// Package print shows the profiler's samples, version 1: each as it comes.
package print

import (
	"io"
	"strconv"

	"github.com/org/ebpf-bench-gate/examples/profiler/event"
)

// Names appends the name of what is at an address of a process; of the kernel, where
// pid is 0.
type Names interface {
	Append(b []byte, pid uint32, addr uint64) []byte
}

// A Printer writes samples.
type Printer struct {
	w     io.Writer
	names Names
	buf   []byte
}

// New makes a printer.
func New(w io.Writer, names Names) *Printer { return &Printer{w: w, names: names} }

// ProcessSample writes one sample: a line that says what it is of, and a line a frame.
func (p *Printer) ProcessSample(s *event.Sample) error {
	p.buf = p.sample(p.buf[:0], s)
	_, err := p.w.Write(p.buf)
	return err
}

// Flush writes what is held back.
func (p *Printer) Flush() error { return nil }

func (p *Printer) sample(b []byte, s *event.Sample) []byte {
	const ms = 1_000_000
	b = strconv.AppendUint(b, s.Time/ms, 10)
	b = append(b, "ms "...)
	b = append(b, s.Comm()...)
	b = append(b, " pid "...)
	b = strconv.AppendUint(b, uint64(s.PID), 10)
	b = append(b, " cpu "...)
	b = strconv.AppendUint(b, uint64(s.CPU), 10)
	b = append(b, '\n')
	for _, addr := range s.Kernel() {
		b = append(p.names.Append(append(b, '\t'), 0, addr), '\n')
	}
	for _, addr := range s.User() {
		b = append(p.names.Append(append(b, '\t'), s.PID, addr), '\n')
	}
	return b
}
