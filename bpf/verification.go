//go:build linux

package bpf

import (
	"errors"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Verification is what loading one program tells of it, accepted or not.
type Verification struct {
	bench.ProgramResult
	// AttachType is the expected attach type in the words of libbpf.
	AttachType string
	// Values are the static measures by name. Of a rejected program they are those
	// that the verifier told before it gave up.
	Values map[string]float64
	// Passed are the lines of source that the verifier went over most often, where
	// [VerifyOptions] asked for them.
	Passed []PassedLine
}

// VerifyOptions say how a program is verified.
type VerifyOptions struct {
	// Cache holds the kernel's types; nil decodes them anew.
	Cache *btf.Cache
	// Trace asks for the verifier's log of a rejected program with the instructions
	// that led there, which loads it once more. It is as long as the way there.
	Trace bool
	// Lines asks for so many lines of source, those that the verifier goes over most
	// often, which loads the program once more. The log of that is as long as the
	// verifier's way, some 100 bytes an instruction, and is held meanwhile.
	Lines int
	// TestStates has the verifier keep a state at every instruction
	// (BPF_F_TEST_STATE_FREQ, Linux 5.4), TestRegs reject a program where what it
	// knows of a register contradicts itself (BPF_F_TEST_REG_INVARIANTS, Linux 6.8).
	TestStates, TestRegs bool
}

func (opts VerifyOptions) flags() (flags uint32) {
	if opts.TestStates {
		flags |= unix.BPF_F_TEST_STATE_FREQ
	}
	if opts.TestRegs {
		flags |= 1 << 7 // BPF_F_TEST_REG_INVARIANTS
	}
	return flags
}

// Verify loads one program of the object as the config says, with small maps that
// stay empty, and unloads it again. It loads nothing else: not the programs that it
// tail-calls. That a program does not load is a result, and so is an accepted one
// whose statistics cannot be read: its Reason says why.
func (o *Object) Verify(program string, opts VerifyOptions) Verification {
	v := Verification{
		ProgramResult: bench.ProgramResult{Program: program, Object: o.Path, Type: o.Type(program), Outcome: bench.Accepted},
		AttachType:    o.attachType(program),
		Values:        map[string]float64{},
	}
	flags := opts.flags()
	if opts.Lines > 0 {
		v.Passed = o.passed(program, opts)
	}
	l, err := o.Load(program, LoadOptions{Stats: true, Cache: opts.Cache, unused: true, flags: flags})
	if err == nil {
		defer l.Close()
		values, functions, err := inspect(l)
		if err != nil {
			v.Reason = err.Error()
			return v
		}
		v.Values, v.Functions = values, functions
		return v
	}
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		// What stands there may be the program's own text: then there are no numbers.
		if log, parseErr := parseLog(strings.Join(ve.Log, "\n")); parseErr == nil {
			v.Values = log.values
		}
		if opts.Trace && len(ve.Log) > 0 {
			if l, again := o.Load(program, LoadOptions{Cache: opts.Cache, unused: true, flags: flags}); again != nil {
				err = again
			} else {
				l.Close()
			}
		}
	}
	v.ProgramResult = Diagnose(o.Path, program, v.Type, err)
	if errors.As(err, &ve) && opts.Trace {
		const most = 40
		v.LogTail = slices.Clone(ve.Log[max(0, len(ve.Log)-most):])
	}
	o.fromSource(program, v.Values)
	return v
}

func (o *Object) attachType(program string) string {
	p := o.spec.Programs[program]
	if p == nil {
		return ""
	}
	return attachTypeName(p.AttachType)
}
