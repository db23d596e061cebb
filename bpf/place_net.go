//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/netns"
)

// modes are where on an interface programs of a type hang, the usual one first.
var modes = map[ebpf.ProgramType][]string{ebpf.XDP: {native, generic}, ebpf.SchedCLS: {ingress, egress}}

// checkInterface is stricter with the config than with sections, whose names loaders
// of others make up.
func checkInterface(h Hook, spec *ebpf.ProgramSpec) error {
	known := modes[spec.Type]
	switch {
	case spec.Type == ebpf.XDP && (h.target == "devmap" || h.target == "cpumap"):
		return fmt.Errorf("a program of a %s runs where another one redirects to", h.target)
	case h.attach && h.target != "" && !slices.Contains(known, h.target):
		return fmt.Errorf("expected %s", strings.Join(known, " or "))
	}
	return nil
}

// attachInterface hangs an XDP or tc program on the place's interface: "native" or
// "generic", "ingress" or "egress"; by default the first of each.
func attachInterface(a attaching) (io.Closer, error) {
	mode := a.target
	if known := modes[a.spec.Type]; !slices.Contains(known, mode) {
		mode = known[0]
	}
	var h hook
	err := netns.Do(a.place.Netns, func() (err error) {
		h, _, err = newHook(a.place.Interface, mode, a.prog)
		return err
	})
	if err != nil {
		return nil, err
	}
	return closerFunc(func() error {
		return netns.Do(a.place.Netns, h.close)
	}), nil
}

// attachSocket opens a packet socket on the place's interface, which sees what
// arrives and what leaves there.
func attachSocket(a attaching) (io.Closer, error) {
	var fd int
	err := netns.Do(a.place.Netns, func() (err error) {
		proto := int(htons(unix.ETH_P_ALL))
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return fmt.Errorf("open a packet socket: %w (needs CAP_NET_RAW)", err)
		}
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, a.prog.FD()); err == nil {
			// What is not read is dropped when this is full, after the program.
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(proto), Ifindex: a.place.Interface})
		}
		if err != nil {
			_ = unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return closerFunc(func() error { return unix.Close(fd) }), nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func checkCgroup(_ Hook, spec *ebpf.ProgramSpec) error {
	if spec.AttachType == ebpf.AttachNone {
		return errors.New("it does not say at which of a control group's hooks: cgroup_skb/ingress, cgroup_skb/egress, cgroup/connect4, …")
	}
	return nil
}

func attachCgroup(a attaching) (io.Closer, error) {
	// By its link or not at all (Linux 5.7): what only BPF_PROG_ATTACH attached
	// outlives a process that is killed.
	return closer(link.AttachRawLink(link.RawLinkOptions{Target: int(a.place.Cgroup.Fd()), Program: a.prog, Attach: a.spec.AttachType}))
}

func checkSockmap(_ Hook, spec *ebpf.ProgramSpec) error {
	if spec.Type == ebpf.SkSKB && spec.AttachType == ebpf.AttachNone {
		return errors.New("it does not say whether it parses or judges: sk_skb/stream_verdict/MAP, or sk_skb/stream_parser/MAP")
	}
	return nil
}

// attachSockmap has the sockets in a map run the program. It goes with the map.
func attachSockmap(a attaching) (io.Closer, error) {
	at, name := a.spec.AttachType, a.target
	if a.spec.Type == ebpf.SkSKB {
		_, name, _ = strings.Cut(a.target, "/")
	}
	m := a.maps[name]
	if name == "" {
		var found []string
		for n, x := range a.maps {
			if x.Type() == ebpf.SockMap || x.Type() == ebpf.SockHash {
				found, m = append(found, n), x
			}
		}
		if len(found) > 1 {
			slices.Sort(found)
			return nil, fmt.Errorf("there are several maps of sockets (%s): write attach: %s/%s", strings.Join(found, ", "), a.text, found[0])
		}
	}
	switch {
	case m == nil && name != "":
		return nil, a.missing(nil, "no map %q among those of the program and of `with:`: there are %s", name, strings.Join(slices.Sorted(maps.Keys(a.maps)), ", "))
	case m == nil:
		return nil, errors.New("the program uses no map of sockets: name the program that fills one, as in with: [ITS_NAME], and the map, as in attach: " + a.text + "/MAP")
	}
	err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: m.FD(), Program: a.prog, Attach: at})
	if err != nil {
		return nil, err
	}
	return closerFunc(func() error {
		return link.RawDetachProgram(link.RawDetachProgramOptions{Target: m.FD(), Program: a.prog, Attach: at})
	}), nil
}

func attachNetns(a attaching) (io.Closer, error) {
	l, err := link.AttachNetNs(int(a.place.Netns.Fd()), a.prog)
	if err != nil {
		return nil, err
	}
	return l, nil
}

var (
	netfilterFamilies = map[string]link.NetfilterProtocolFamily{"ipv4": link.NetfilterProtoIPv4, "ipv6": link.NetfilterProtoIPv6}
	netfilterHooks    = map[string]link.NetfilterInetHook{
		"prerouting": link.NetfilterInetPreRouting, "local_in": link.NetfilterInetLocalIn, "forward": link.NetfilterInetForward,
		"local_out": link.NetfilterInetLocalOut, "postrouting": link.NetfilterInetPostRouting,
	}
)

// netfilterAt reads "ipv4/local_in:priority".
func netfilterAt(target string) (o link.NetfilterOptions, err error) {
	where, priority, _ := strings.Cut(target, ":")
	family, at, _ := strings.Cut(where, "/")
	n := 0
	if priority != "" {
		n, err = strconv.Atoi(priority)
	}
	pf, okFamily := netfilterFamilies[family]
	hook, okHook := netfilterHooks[at]
	if !okFamily || !okHook || err != nil || int(int32(n)) != n {
		return o, fmt.Errorf("a netfilter hook has a family (ipv4, ipv6), a place (%s) and a priority", strings.Join(slices.Sorted(maps.Keys(netfilterHooks)), ", "))
	}
	return link.NetfilterOptions{ProtocolFamily: pf, Hook: hook, Priority: int32(n)}, nil
}

func checkNetfilter(h Hook, _ *ebpf.ProgramSpec) error {
	_, err := netfilterAt(h.target)
	return err
}

// attachNetfilter needs Linux 6.4 (84601d6ee68a).
func attachNetfilter(a attaching) (io.Closer, error) {
	o, err := netfilterAt(a.target)
	if err != nil {
		return nil, err
	}
	o.Program = a.prog
	var l link.Link
	err = netns.Do(a.place.Netns, func() error {
		l, err = link.AttachNetfilter(o)
		return err
	})
	return closer(l, err)
}
