// Package event is what the profiler's program in the kernel says: one record a
// sample.
package event

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// MaxFrames is how many frames of a stack a sample has at most.
const MaxFrames = 64

// A Sample is struct sample of profiler.bpf.c.
type Sample struct {
	Time                    uint64 // ns since boot
	PID, TID, CPU           uint32
	KernelBytes, UserBytes  int32 // of the stacks; below 0: there is none
	CommandName             [16]byte
	_                       [4]byte
	KernelStack, UserFrames [MaxFrames]uint64
}

// Decode reads a record.
func Decode(record []byte, s *Sample) error {
	if _, err := binary.Decode(record, binary.NativeEndian, s); err != nil {
		return fmt.Errorf("a record of %d bytes: %w", len(record), err)
	}
	return nil
}

// Comm is the name of the task.
func (s *Sample) Comm() []byte {
	name, _, _ := bytes.Cut(s.CommandName[:], []byte{0})
	return name
}

// Kernel and User are the stacks, the innermost frame first.
func (s *Sample) Kernel() []uint64 { return s.KernelStack[:frames(s.KernelBytes)] }

// User is the stack of user space.
func (s *Sample) User() []uint64 { return s.UserFrames[:frames(s.UserBytes)] }

func frames(size int32) int {
	const word = 8
	return min(max(int(size)/word, 0), MaxFrames)
}
