package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/store"
	"github.com/org/ebpf-bench-gate/internal/vm"
)

// A guestPlan is what a virtual machine is told to measure of one suite. Both ends
// are the same executable, so the encoding (package gob) has no versions.
type guestPlan struct {
	Seed       uint64
	Tool       string
	Time       time.Time
	Required   bool
	Partial    bool
	Benchmarks []bench.Benchmark
	Sides      []guestSide
}

type guestSide struct {
	Name     string
	Revision bench.Revision
	Objects  []guestObject
}

// A guestObject is an object, or one of an executable's, and what the config says of
// its programs.
type guestObject struct {
	Name     string
	File     string // in the guest
	Hidden   map[string]bool
	Programs []bench.Program
}

// planFile is where a guest finds its plans.
const planFile = "plan"

// register names what may stand in a [bench.Value].
func register() {
	for _, e := range []bench.Expr{
		bench.Int{}, bench.Range{}, bench.Bytes{}, bench.Text(""), bench.Variable{}, bench.Call{}, bench.Struct{}, bench.List{},
	} {
		gob.Register(e)
	}
}

// guestFiles are what a guest needs to measure the plans.
func guestFiles(plans []*runner.Plan) (vm.Files, error) {
	files := vm.Files{}
	names := map[string]string{} // of files, by path on the host
	var all []guestPlan
	for _, p := range plans {
		plan := guestPlan{Seed: p.Seed, Tool: p.Tool, Time: p.Time, Required: p.Required, Partial: p.Partial, Benchmarks: p.Benchmarks}
		for _, s := range p.Sides {
			side := guestSide{Name: s.Name, Revision: s.Revision}
			for _, o := range s.Objects {
				name, ok := names[o.File]
				if !ok {
					name = fmt.Sprintf("objects/%d.o", len(names))
					names[o.File] = name
					files[name] = vm.File{Path: o.File}
				}
				side.Objects = append(side.Objects, guestObject{o.Name, name, o.Hidden, o.Configured()})
			}
			plan.Sides = append(plan.Sides, side)
		}
		all = append(all, plan)
	}
	register()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(all); err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	files[planFile] = vm.File{Data: b.Bytes()}
	return files, nil
}

// guest is the verb of the first process of a virtual machine: it measures the
// plans and sends the runs through the machine's port.
func (c Command) guest() *cobra.Command {
	return &cobra.Command{
		Use:    "guest",
		Short:  "Measure inside of a virtual machine, as its first process",
		Hidden: true,
		Args:   takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			port, err := vm.Enter()
			if err != nil {
				return unmeasured(err)
			}
			packed, err := measureInside(cmd.Context(), port)
			if err != nil {
				return port.Fail(err)
			}
			return port.Result(packed)
		},
	}
}

func measureInside(ctx context.Context, port *vm.Port) ([]byte, error) {
	if err := vm.Clock(); err != nil {
		return nil, err
	}
	f, err := os.Open("/" + planFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	register()
	var plans []guestPlan
	if err := gob.NewDecoder(f).Decode(&plans); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	var out []byte
	for i := range plans {
		packed, err := plans[i].measure(ctx, port)
		if err != nil {
			return nil, err
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
	}
	return out, nil
}

// split undoes how a guest puts bundles together: each behind its length.
func split(b []byte, n int) ([][]byte, error) {
	var parts [][]byte
	for range n {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, errors.New("the guest's runs are cut short")
		}
		end := 4 + int(binary.BigEndian.Uint32(b))
		parts, b = append(parts, b[4:end]), b[end:]
	}
	if len(b) > 0 {
		return nil, errors.New("there is something behind the guest's runs")
	}
	return parts, nil
}

func (plan *guestPlan) measure(ctx context.Context, port *vm.Port) ([]byte, error) {
	p := runner.Plan{
		Seed: plan.Seed, Tool: plan.Tool, Time: plan.Time, Required: plan.Required, Partial: plan.Partial,
		Benchmarks: plan.Benchmarks,
		Begin:      func(what string) { _ = port.Progress(what) },
	}
	var err error
	for _, s := range plan.Sides {
		side := runner.Side{Name: s.Name, Revision: s.Revision}
		for _, g := range s.Objects {
			o, err := g.open()
			if err != nil {
				return nil, err
			}
			side.Objects = append(side.Objects, o)
		}
		p.Sides = append(p.Sides, side)
	}
	if p.Testbed, err = bpf.Testbed(); err != nil {
		return nil, err
	}
	p.Begin("set up")
	res, err := runner.Count(ctx, p)
	if err != nil {
		return nil, err
	}
	p.Begin("hand over")
	return (&store.Bundle{Base: res.Base, Head: res.Head}).Encode()
}

// open opens the object, among those of its file.
func (g guestObject) open() (runner.Object, error) {
	all, err := opened("/"+g.File, "")
	if err != nil {
		return runner.Object{}, fmt.Errorf("%s: %w", g.Name, err)
	}
	for _, o := range all {
		// Those of an executable are numbered: "#0".
		if strings.HasSuffix(g.Name, o.Name) {
			o.Name, o.Hidden = g.Name, g.Hidden
			return o, o.Configure(g.Programs)
		}
	}
	return runner.Object{}, fmt.Errorf("%s is not in its file", g.Name)
}
