//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/netns"
)

// A pair is two ends of a veth: dev in the session's namespace, where programs
// are attached, and its peer in another one that has no name either. The peer's
// namespace is kept by the socket there and the ends by their namespaces, so all
// of it goes with the process, however that ends.
type pair struct {
	dev    *netlink.Veth // with its index
	peer   int           // interface index in the peer's namespace
	socket int           // sends at the peer
	own    int           // sends at dev: what leaves through it; -1 without egress
}

// veths numbers the devices of the process: a namespace may have several pairs.
var veths atomic.Uint32

// newPairs makes n pairs whose devices carry frames of up to the given bytes.
// Both ends are up and silent: no IPv6, no ARP, so that nothing but what is sent
// on purpose runs a program. Called on the session's thread.
func newPairs(n, frame int, egress bool) (pairs []*pair, err error) {
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the session's network namespace: %w", err)
	}
	defer unix.Close(home)
	defer func() {
		if err != nil {
			closePairs(pairs)
			pairs = nil
		}
	}()
	made := make(chan error)
	// The thread ends with this, and its hold on the namespace too.
	netns.Go(func() {
		made <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("make a network namespace: %w (needs root or CAP_SYS_ADMIN)", err)
			}
			for range n {
				p, err := newPair(home, frame)
				if err != nil {
					return err
				}
				pairs = append(pairs, p)
			}
			return nil
		}()
	})
	if err := <-made; err != nil {
		return pairs, err
	}
	for _, p := range pairs {
		l, err := netlink.LinkByName(p.dev.Name)
		if err != nil {
			return pairs, fmt.Errorf("find %s: %w", p.dev.Name, err)
		}
		p.dev.Index = l.Attrs().Index
		if err := bringUp(l); err != nil {
			return pairs, err
		}
		if !egress {
			continue
		}
		// Without PACKET_QDISC_BYPASS, which would pass by tc's egress hook.
		if p.own, err = packetSocket(p.dev.Index, false); err != nil {
			return pairs, err
		}
	}
	return pairs, nil
}

// newPair makes a pair from the thread of the peer's namespace.
func newPair(home, frame int) (*pair, error) {
	name := "gate" + strconv.FormatUint(uint64(veths.Add(1)), 36)
	mtu := max(1500, frame-ethernetHeader)
	v := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: name, MTU: mtu},
		PeerName:      name,
		PeerMTU:       uint32(mtu),
		PeerNamespace: netlink.NsFd(home),
	}
	if err := netlink.LinkAdd(v); err != nil {
		return nil, fmt.Errorf("make a veth pair: %w (needs CAP_NET_ADMIN and the veth driver; frames of at most %d bytes)", err, 65535)
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	if err := bringUp(l); err != nil {
		return nil, err
	}
	p := &pair{dev: &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}}, peer: l.Attrs().Index, own: -1}
	if p.socket, err = packetSocket(p.peer, true); err != nil {
		return nil, err
	}
	return p, nil
}

// bringUp silences an interface of this thread's namespace and sets it up.
func bringUp(l netlink.Link) error {
	name := l.Attrs().Name
	// /proc/sys/net shows the namespace of the thread that opens it. A kernel
	// without IPv6 has no such file; where /proc/sys may not be written, the
	// router solicitations of the first seconds run the program too, and the
	// run counts show it.
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("switch off IPv6 on %s: %w", name, err)
	}
	if err := netlink.LinkSetARPOff(l); err != nil {
		return fmt.Errorf("switch off ARP on %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// xdpMode is how the interface runs its XDP program: "native", "generic", or ""
// where it has none.
func xdpMode(index int) (string, error) {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return "", err
	}
	xdp := l.Attrs().Xdp
	if xdp == nil || !xdp.Attached {
		return "", nil
	}
	// enum of IFLA_XDP_ATTACHED in include/uapi/linux/if_link.h.
	const driver, generic = 1, 2
	switch xdp.AttachMode {
	case driver:
		return "native", nil
	case generic:
		return "generic", nil
	}
	return fmt.Sprintf("mode %d", xdp.AttachMode), nil
}

// received is the packets that arrived at the pair's device and those that the
// kernel dropped there, since it was made.
func (p *pair) received() (packets, dropped uint64) {
	l, err := netlink.LinkByIndex(p.dev.Index)
	if err != nil || l.Attrs().Statistics == nil {
		return 0, 0
	}
	s := l.Attrs().Statistics
	return s.RxPackets, s.RxDropped
}

// closePairs takes the pairs down. It works with half-made ones.
func closePairs(pairs []*pair) {
	for _, p := range slices.Backward(pairs) {
		if p.dev.Index != 0 {
			_ = netlink.LinkDel(p.dev)
		}
		_ = unix.Close(p.socket)
		if p.own >= 0 {
			_ = unix.Close(p.own)
		}
	}
}
