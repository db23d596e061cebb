//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A hook is a place in the kernel that holds one program at a time.
type hook interface {
	// put has the hook run the program, in place of the one before.
	put(p *ebpf.Program) error
	close() error
}

// A linkHook is a hook behind a BPF link, which is kept over the rounds: putting
// another program into a link takes one RCU grace period (about 25 ms for XDP),
// detaching and attaching two.
type linkHook struct {
	link   link.Link // nil before the first program
	attach func(p *ebpf.Program) (link.Link, error)
}

func (h *linkHook) put(p *ebpf.Program) (err error) {
	if h.link == nil {
		h.link, err = h.attach(p)
		return err
	}
	return h.link.Update(p)
}

func (h *linkHook) close() error {
	if h.link == nil {
		return nil
	}
	return h.link.Close()
}

// A filterHook is a classifier of tc's clsact, for kernels before tcx. It goes
// with its interface, if not before.
type filterHook struct {
	index  int
	parent uint32
}

// filter is the classifier of a program.
func (h *filterHook) filter(fd int) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: h.index, Parent: h.parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:           fd,
		Name:         "gate",
		DirectAction: true,
	}
}

func (h *filterHook) put(p *ebpf.Program) error {
	f := h.filter(p.FD())
	if err := netlink.FilterReplace(f); err != nil {
		return fmt.Errorf("add a tc filter: %w", err)
	}
	return nil
}

func (h *filterHook) close() error {
	return netlink.FilterDel(h.filter(-1))
}

// newFilterHook makes the interface ready for classifiers.
func newFilterHook(index int, mode string) (*filterHook, error) {
	err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Parent: netlink.HANDLE_CLSACT, Handle: netlink.MakeHandle(0xffff, 0),
	}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("add a clsact qdisc: %w (needs Linux 4.5 with sch_ingress)", err)
	}
	h := &filterHook{index: index, parent: netlink.HANDLE_MIN_INGRESS}
	if mode == egress {
		h.parent = netlink.HANDLE_MIN_EGRESS
	}
	return h, nil
}

// The modes of a veth benchmark.
const (
	native  = "native"
	generic = "generic"
	ingress = "ingress"
	egress  = "egress"
)

// newHook makes the hook of an interface for the mode, proves it with a program,
// and names it: "veth native", "veth tcx ingress", …. XDP links need Linux 5.9
// (aa8d3a716b59), tcx links 6.6 (e420bed02507).
func newHook(index int, mode string, p *ebpf.Program) (h hook, path string, err error) {
	switch mode {
	case native, generic:
		flags := link.XDPDriverMode
		if mode == generic {
			flags = link.XDPGenericMode
		}
		l := &linkHook{attach: func(p *ebpf.Program) (link.Link, error) {
			return link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: flags})
		}}
		if err := l.put(p); err != nil {
			return nil, "", fmt.Errorf("attach XDP in %s mode: %w", mode, err)
		}
		if got, err := xdpMode(index); err != nil || got != mode {
			_ = l.close()
			return nil, "", errors.Join(fmt.Errorf("the kernel runs XDP in mode %q, not %s", got, mode), err)
		}
		return l, "veth " + mode, nil
	case ingress, egress:
		at := ebpf.AttachTCXIngress
		if mode == egress {
			at = ebpf.AttachTCXEgress
		}
		l := &linkHook{attach: func(p *ebpf.Program) (link.Link, error) {
			return link.AttachTCX(link.TCXOptions{Program: p, Interface: index, Attach: at})
		}}
		if err = l.put(p); err == nil {
			return l, "veth tcx " + mode, nil
		}
		if !errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, unix.EINVAL) {
			return nil, "", fmt.Errorf("attach to tc %s: %w", mode, err)
		}
		f, err := newFilterHook(index, mode)
		if err == nil {
			err = f.put(p)
		}
		if err != nil {
			return nil, "", err
		}
		return f, "veth clsact " + mode, nil
	}
	return nil, "", fmt.Errorf("unknown mode %q", mode)
}
