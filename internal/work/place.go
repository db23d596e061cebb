//go:build linux

package work

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/netns"
)

// A Place is where work happens. Close it.
type Place struct {
	dir    string
	names  []string // of the namespaces, in the order in which links name them
	spaces map[string]*os.File
	links  []bench.Link
	index  map[[2]string]int // interface index, by namespace and name
	cgroup *os.File          // nil: none
}

// Options say what a place has.
type Options struct {
	// Dir is where commands run, and whose owner runs them.
	Dir string
	// Links are the veth pairs; none is [bench.DefaultLinks].
	Links []bench.Link
	// MTU is that of every link, in bytes; 0 is 1500.
	MTU int
	// Cgroup asks for a control group of its own.
	Cgroup bool
	// Host leaves commands in gate's own network namespace, called "host": there
	// are no others, and no links.
	Host bool
}

// New makes a place. It needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
func New(o Options) (_ *Place, err error) {
	p := &Place{dir: o.Dir, links: o.Links, spaces: map[string]*os.File{}, index: map[[2]string]int{}}
	if len(p.links) == 0 && !o.Host {
		p.links = bench.DefaultLinks()
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if o.Host {
		const host = "host"
		p.names = []string{host}
		if p.spaces[host], err = netns.Current(); err != nil {
			return nil, err
		}
	}
	for _, l := range p.links {
		for _, e := range l.Ends {
			if p.spaces[e.Namespace] != nil {
				continue
			}
			if p.spaces[e.Namespace], err = netns.New(); err != nil {
				return nil, err
			}
			p.names = append(p.names, e.Namespace)
		}
	}
	for i, l := range p.links {
		if err := p.join(i, l, max(1500, o.MTU)); err != nil {
			return nil, fmt.Errorf("link %s to %s: %w", l.Ends[0].Namespace, l.Ends[1].Namespace, err)
		}
	}
	if o.Cgroup {
		if p.cgroup, err = newCgroup(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// join makes the veth pair of the i-th link. Its hardware addresses follow from i:
// those of the first one are the defaults of a config's packets.
func (p *Place) join(i int, l bench.Link, mtu int) error {
	a, b := l.Ends[0], l.Ends[1]
	mac := func(end byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(i), end} }
	err := netns.Do(p.spaces[a.Namespace], func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs:        netlink.LinkAttrs{Name: b.Namespace, MTU: mtu, HardwareAddr: mac(1)},
			PeerName:         a.Namespace,
			PeerMTU:          uint32(mtu),
			PeerHardwareAddr: mac(2),
			PeerNamespace:    netlink.NsFd(p.spaces[b.Namespace].Fd()),
		})
	})
	if err != nil {
		return fmt.Errorf("make a veth pair: %w (needs CAP_NET_ADMIN and the veth driver)", err)
	}
	for own, other := range map[bench.End]bench.End{a: b, b: a} {
		err := netns.Do(p.spaces[own.Namespace], func() error {
			index, err := bringUp(other.Namespace, own.Addr, other.Addr)
			p.index[[2]string{own.Namespace, other.Namespace}] = index
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bringUp gives an interface its address and a way to the other end, and sets it
// up. Without an address of IPv6 it is silent there: neighbour discovery would run
// programs of the network at times of its own.
func bringUp(name string, own, other netip.Prefix) (index int, err error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	index = l.Attrs().Index
	if !own.Addr().Is6() {
		// Linux without IPv6 has no such file; a read-only /proc/sys leaves a few
		// packets of the first seconds.
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrPermission) {
			return index, fmt.Errorf("switch off IPv6 on %s: %w", name, err)
		}
	}
	if own.IsValid() {
		addr := &netlink.Addr{IPNet: ipNet(own)}
		if own.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD // else it is no address for the first second
		}
		if other.IsValid() && other.Addr().Is4() == own.Addr().Is4() && !own.Masked().Contains(other.Addr()) {
			addr.Peer = ipNet(netip.PrefixFrom(other.Addr(), other.Addr().BitLen()))
		}
		if err := netlink.AddrAdd(l, addr); err != nil {
			return index, fmt.Errorf("give %s the address %s: %w", name, own, err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return index, fmt.Errorf("bring up %s: %w", name, err)
	}
	return index, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Namespace is a namespace by its name; "" is the first one.
func (p *Place) Namespace(name string) (*os.File, error) {
	if name == "" {
		name = p.names[0]
	}
	ns := p.spaces[name]
	if ns == nil {
		return nil, fmt.Errorf("no namespace %q: there are %s", name, strings.Join(p.names, ", "))
	}
	return ns, nil
}

// Interface finds "namespace" or "namespace/interface"; "" is the second end of
// the first link.
func (p *Place) Interface(at string) (ns *os.File, name string, index int, err error) {
	if at == "" {
		at = p.links[0].Ends[1].Namespace + "/" + p.links[0].Ends[0].Namespace
	}
	space, name, _ := strings.Cut(at, "/")
	if ns, err = p.Namespace(space); err != nil {
		return nil, "", 0, err
	}
	var there []string
	for key := range p.index {
		if key[0] == space {
			there = append(there, key[1])
		}
	}
	slices.Sort(there)
	switch {
	case name == "" && len(there) == 1:
		name = there[0]
	case name == "":
		return nil, "", 0, fmt.Errorf("%s has several interfaces: write %s/%s or %s/%s", space, space, there[0], space, there[1])
	case !slices.Contains(there, name):
		return nil, "", 0, fmt.Errorf("%s has no interface %q: it has %s", space, name, strings.Join(there, ", "))
	}
	return ns, name, p.index[[2]string{space, name}], nil
}

// First is the index of a namespace's first interface; "" is the first namespace.
func (p *Place) First(namespace string) (int, error) {
	if namespace == "" {
		namespace = p.names[0]
	}
	for _, l := range p.links {
		for i, e := range l.Ends {
			if e.Namespace == namespace {
				return p.index[[2]string{namespace, l.Ends[1-i].Namespace}], nil
			}
		}
	}
	return 0, fmt.Errorf("no namespace %q: there are %s", namespace, strings.Join(p.names, ", "))
}

// Env are the variables that tell a command where it is:
//
//	GATE_NETNS                 the namespace that it runs in
//	GATE_IFACE                 that namespace's first interface
//	GATE_ADDR                  the address of it
//	GATE_ADDR_SERVER           the first address of the namespace "server"
//	GATE_ADDR_SERVER_CLIENT    that of its interface to "client"
//	GATE_ROUND                 the round, from 0; in setup and teardown not set
func (p *Place) Env(in string, round int) []string {
	if in == "" {
		in = p.names[0]
	}
	env := []string{"GATE_NETNS=" + in}
	seen := map[string]bool{}
	for _, l := range p.links {
		for i, e := range l.Ends {
			other, addr := l.Ends[1-i].Namespace, ""
			if e.Addr.IsValid() {
				addr = e.Addr.Addr().String()
			}
			if !seen[e.Namespace] {
				env = append(env, "GATE_ADDR_"+variable(e.Namespace)+"="+addr)
				if e.Namespace == in {
					env = append(env, "GATE_IFACE="+other, "GATE_ADDR="+addr)
				}
			}
			seen[e.Namespace] = true
			env = append(env, "GATE_ADDR_"+variable(e.Namespace)+"_"+variable(other)+"="+addr)
		}
	}
	if round >= 0 {
		env = append(env, fmt.Sprintf("GATE_ROUND=%d", round))
	}
	return env
}

func variable(name string) string {
	return strings.ReplaceAll(strings.ToUpper(name), "-", "_")
}

// Cgroup is the control group that commands run in; nil where there is none.
func (p *Place) Cgroup() *os.File { return p.cgroup }

// Close lets the namespaces go and takes the control group away. Jails are to be
// closed before.
func (p *Place) Close() error {
	var errs []error
	if p.cgroup != nil {
		errs = append(errs, removeCgroup(p.cgroup))
		p.cgroup = nil
	}
	for _, ns := range p.spaces {
		errs = append(errs, ns.Close())
	}
	p.spaces = nil
	return errors.Join(errs...)
}
