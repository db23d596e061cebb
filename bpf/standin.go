//go:build linux

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// standIn gives programs that attach to another eBPF program (freplace, fentry
// and fexit on one) something to attach to, when the config names no target:
// an XDP program that passes. What such a program costs is then measured on
// that stand-in.
func (l *Loaded) standIn(p *ebpf.ProgramSpec, cache *btf.Cache) error {
	if p.AttachTarget != nil {
		return nil
	}
	switch {
	case p.Type == ebpf.Extension:
	case p.Type == ebpf.Tracing && (p.AttachType == ebpf.AttachTraceFEntry || p.AttachType == ebpf.AttachTraceFExit):
		// A name that the kernel has is a kernel function.
		if p.AttachTo != "" && p.AttachTo != "func" && kernelHasFunc(p.AttachTo, cache) {
			return nil
		}
	default:
		return nil
	}
	name := p.AttachTo
	if name == "" {
		name = "func"
	}
	target, err := newStandIn(name)
	if err != nil {
		return fmt.Errorf("stand-in target %s: %w", name, err)
	}
	l.extra = append(l.extra, target)
	p.AttachTarget, p.AttachTo = target, name
	return nil
}

// kernelHasFunc looks into the types of the kernel, which take 20 ms to decode
// without a cache.
func kernelHasFunc(name string, cache *btf.Cache) bool {
	if cache == nil {
		cache = btf.NewCache()
	}
	spec, err := cache.Kernel()
	if err != nil {
		return false
	}
	var f *btf.Func
	return spec.TypeByName(name, &f) == nil
}

// newStandIn loads an XDP program whose one global function has the name.
func newStandIn(name string) (*ebpf.Program, error) {
	ctx := &btf.Pointer{Target: &btf.Struct{Name: "xdp_md", Size: 24, Members: xdpMembers()}}
	fn := &btf.Func{
		Name: name, Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: ctx}},
		},
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 2).WithSymbol(name), fn),
			asm.Return(),
		},
	})
}

func xdpMembers() []btf.Member {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	var ms []btf.Member
	for i, n := range []string{"data", "data_end", "data_meta", "ingress_ifindex", "rx_queue_index", "egress_ifindex"} {
		ms = append(ms, btf.Member{Name: n, Type: u32, Offset: btf.Bits(32 * i)})
	}
	return ms
}
