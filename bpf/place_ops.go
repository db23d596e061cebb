//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// attachStructOps registers the operations that the program is one of (Linux 6.4,
// 68b04864ca42). Of one name there can be one at a time.
func attachStructOps(a attaching) (io.Closer, error) {
	for _, m := range a.maps {
		if m.Type() == ebpf.StructOpsMap {
			return closer(link.AttachStructOps(link.StructOpsOptions{Map: m}))
		}
	}
	return nil, errors.New("no operations were loaded")
}

// loadOps loads a struct_ops program with all others of its operations, and their
// map.
func (o *Object) loadOps(program string, opts LoadOptions) (*Loaded, error) {
	ops, _, _ := strings.Cut(o.spec.Programs[program].AttachTo, ":")
	spec, err := o.prune(program)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Programs() {
		if p := o.spec.Programs[name]; p.Type != ebpf.StructOps || !strings.HasPrefix(p.AttachTo, ops+":") {
			continue
		}
		more, err := o.prune(name)
		if err != nil {
			return nil, err
		}
		spec.Programs[name] = more.Programs[name]
		for n, m := range more.Maps {
			spec.Maps[n] = m
		}
	}
	found := ""
	for name, m := range o.spec.Maps {
		if m.Type != ebpf.StructOpsMap || m.Value == nil || m.Value.TypeName() != ops {
			continue
		}
		if found != "" {
			return nil, fmt.Errorf("%s has several %s (%s, %s): gate cannot tell whose the program is", o.Path, ops, found, name)
		}
		found, spec.Maps[name] = name, m.Copy()
	}
	const byLink = 1 << 13 // BPF_F_LINK
	switch {
	case found == "":
		return nil, fmt.Errorf("%s is one of no operations (%s) of %s", program, ops, o.Path)
	case spec.Maps[found].Flags&byLink == 0:
		return nil, fmt.Errorf(`%s stands in SEC(".struct_ops"), and so would outlive a gate that is killed: write SEC(".struct_ops.link")`, found)
	}
	if err := o.size(spec); err != nil {
		return nil, err
	}
	l := &Loaded{Name: program, object: o, spec: spec, Type: ebpf.StructOps}
	if l.coll, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: opts.Cache}); err != nil {
		return nil, o.explainTarget(program, explainLoad(l.Type, err))
	}
	l.Program = l.coll.Programs[program]
	if err := l.fill(func(string) bool { return true }); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
