package verifier

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/render"
)

// Options say how programs are looked at.
type Options struct {
	// Jobs is how many files are looked at at a time, 1 or more.
	Jobs int
	// Verify is how each program is loaded.
	Verify bpf.VerifyOptions
	// Set are global variables and their values, in the objects that have them; Has, if
	// not nil, is told of each that an object has, from any goroutine.
	Set []bench.Constant
	Has func(name string)
	// Wants tells whether a program is asked for; an empty one asks for the file.
	Wants func(file, program string) bool
	// Progress, if not nil, is told of each file before it is looked at.
	Progress func(name string)
}

// A Skip is a file that was not looked at, and why.
type Skip struct {
	Source Source
	Err    error
}

// Measure loads every program of the sources that is wanted, each by itself, and
// returns a row for each, in the order of the sources. Of an object it keeps nothing
// else; no more than [bpf.MaxObjectSize] bytes of files are open at a time. Files that
// hold no programs are told, each with its reason. The error is the context's, or that
// of a host on which nothing can be loaded.
func Measure(ctx context.Context, sources []Source, o Options) ([]Row, []Skip, error) {
	// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil && !errors.Is(err, unix.EPERM) {
		return nil, nil, fmt.Errorf("raise the locked-memory limit: %w", err)
	}
	if o.Verify.Cache == nil {
		o.Verify.Cache = btf.NewCache()
	}
	if err := loads(o.Verify); err != nil {
		return nil, nil, err
	}
	if o.Verify.Lines > 0 {
		o.Jobs = 1 // one log at a time: it may have hundreds of megabytes
	}
	memory := semaphore.NewWeighted(bpf.MaxObjectSize)
	rows, skips := make([][]Row, len(sources)), make([]error, len(sources))
	var progress sync.Mutex
	g, working := errgroup.WithContext(ctx)
	g.SetLimit(max(1, o.Jobs))
	for i, s := range sources {
		weight := min(max(s.Size, 1), bpf.MaxObjectSize)
		if memory.Acquire(working, weight) != nil {
			break // somebody failed, or was stopped
		}
		g.Go(func() error {
			defer memory.Release(weight)
			if o.Wants != nil && !o.Wants(s.Name, "") {
				return nil
			}
			if o.Progress != nil {
				progress.Lock()
				o.Progress(s.Name)
				progress.Unlock()
			}
			objects, err := Open(s)
			if err != nil {
				skips[i] = err
			}
			for _, named := range objects {
				r, err := Programs(working, named.Name, named.Object, o)
				rows[i] = append(rows[i], r...)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	if err == nil {
		err = ctx.Err() // before anything was begun
	}
	if err != nil {
		return nil, nil, err
	}
	var all []Row
	var told []Skip
	for i := range sources {
		all = append(all, rows[i]...)
		if skips[i] != nil {
			told = append(told, Skip{sources[i], skips[i]})
		}
	}
	return all, told, nil
}

// loads tells why this host loads no programs at all, or not in the way that is asked
// for; nil: it does. Each row would say the same.
func loads(o bpf.VerifyOptions) error {
	plain := bpf.Reference().Verify(bpf.ReferenceProgram, bpf.VerifyOptions{Cache: o.Cache})
	if plain.Outcome != bench.Accepted {
		return fmt.Errorf("no program can be loaded here: %s", plain.Reason)
	}
	for _, flag := range []struct {
		options bpf.VerifyOptions
		asked   bool
		what    string
	}{
		{bpf.VerifyOptions{Cache: o.Cache, TestStates: true}, o.TestStates, "to test states (Linux 5.4)"},
		{bpf.VerifyOptions{Cache: o.Cache, TestRegs: true}, o.TestRegs, "to test what it knows of registers (Linux 6.8)"},
	} {
		if flag.asked && bpf.Reference().Verify(bpf.ReferenceProgram, flag.options).Outcome != bench.Accepted {
			return fmt.Errorf("this kernel's verifier cannot be asked %s", flag.what)
		}
	}
	return nil
}

// An Object is an object under the name that its rows have.
type Object struct {
	Name   string
	Object *bpf.Object
}

// ErrNone is that an executable that nobody named holds no programs.
var ErrNone = errors.New("no eBPF programs")

// Open opens a source: an object, or the objects that an executable holds. Where it
// holds some that can be read and some that cannot, both are returned.
func Open(s Source) ([]Object, error) {
	o, err := bpf.OpenObject(s.Path)
	if err == nil {
		return []Object{{s.Name, o}}, nil
	}
	in, inErr := bpf.Embedded(s.Path)
	switch {
	case len(in) == 0 && inErr == nil && !s.Named && executable(s.Path):
		return nil, ErrNone
	case len(in) == 0 && inErr == nil:
		return nil, err // neither an object that can be read, nor does it hold one
	case len(in) == 1 && inErr == nil:
		return []Object{{s.Name, in[0]}}, nil
	}
	var out []Object
	for _, o := range in {
		_, n, _ := strings.Cut(filepath.Base(o.Path), "#")
		out = append(out, Object{s.Name + "#" + n, o})
	}
	return out, inErr
}

// Programs looks at the programs of one object.
func Programs(ctx context.Context, name string, object *bpf.Object, o Options) ([]Row, error) {
	var rows []Row
	for _, name := range object.Set(o.Set) {
		if o.Has != nil {
			o.Has(name)
		}
	}
	for _, p := range object.Programs() {
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		if o.Wants != nil && !o.Wants(name, p) {
			continue
		}
		v := object.Verify(p, o.Verify)
		rows = append(rows, row(name, &v))
	}
	return rows, nil
}

func row(file string, v *bpf.Verification) Row {
	r := Row{
		File: file, Program: v.Program, Accepted: v.Outcome == bench.Accepted, Outcome: v.Outcome,
		Type: v.Type, AttachType: v.AttachType, Reason: render.Clean(v.Reason), Log: v.LogTail,
		Values: map[string]float64{}, Functions: v.Functions,
	}
	for _, l := range v.Passed {
		r.Passed = append(r.Passed, PassedLine(l))
	}
	for i := range stats {
		if value, ok := v.Values[stats[i].Measure]; ok {
			r.Values[stats[i].Name()] = value
		}
	}
	return r
}
