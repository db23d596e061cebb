//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// attachments are programs attached in the session's namespace. They hold the
// links: one that the collector closes is detached, silently.
type attachments struct {
	links []link.Link
	veths []netlink.Link
}

// pairs counts the veth pairs, so that no two of a process have one name.
var pairs atomic.Uint32

// attach attaches an XDP program in generic mode: to lo, which every kernel has,
// or where that is taken to a veth pair made for it. From then on the kernel keeps
// it in the XDP dispatcher, and test runs of it do not wait for an RCU grace
// period.
func (a *attachments) attach(p *ebpf.Program) error {
	if lo, err := netlink.LinkByName("lo"); err == nil && a.attachTo(p, lo) == nil {
		return nil
	}
	name := fmt.Sprintf("pad%d", pairs.Add(1)) // not "gate…": those are the macro lane's
	v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
	if err := netlink.LinkAdd(v); err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	a.veths = append(a.veths, v)
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return a.attachTo(p, dev)
}

func (a *attachments) attachTo(p *ebpf.Program, dev netlink.Link) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: dev.Attrs().Index, Flags: link.XDPGenericMode})
	if err != nil {
		return err
	}
	a.links = append(a.links, l)
	return nil
}

func (a *attachments) close() error {
	var errs []error
	for _, l := range a.links {
		errs = append(errs, l.Close())
	}
	for _, v := range a.veths {
		errs = append(errs, netlink.LinkDel(v))
	}
	a.links, a.veths = nil, nil
	return errors.Join(errs...)
}
