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

// attachInterface hangs an XDP or tc program on the place's interface: "native" or
// "generic", "ingress" or "egress"; by default the first of each.
func attachInterface(a attaching) (io.Closer, error) {
	mode := a.target
	switch {
	case a.spec.Type == ebpf.XDP && (a.target == "devmap" || a.target == "cpumap"):
		return nil, fmt.Errorf("a program of a %s runs where another one redirects to", a.target)
	case a.spec.Type == ebpf.XDP && mode != generic:
		mode = native
	case a.spec.Type == ebpf.SchedCLS && mode != egress:
		mode = ingress
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

func attachCgroup(a attaching) (io.Closer, error) {
	if a.spec.AttachType == ebpf.AttachNone {
		return nil, errors.New("the section does not say at which of a control group's hooks: write attach: cgroup_skb/ingress, or cgroup_skb/egress")
	}
	// By its link or not at all (Linux 5.7): what only BPF_PROG_ATTACH attached
	// outlives a process that is killed.
	return closer(link.AttachRawLink(link.RawLinkOptions{Target: int(a.place.Cgroup.Fd()), Program: a.prog, Attach: a.spec.AttachType}))
}

// attachSockmap has the sockets in a map run the program. It goes with the map.
func attachSockmap(a attaching) (io.Closer, error) {
	at, name := a.spec.AttachType, a.target
	if a.spec.Type == ebpf.SkSKB {
		_, name, _ = strings.Cut(a.target, "/")
		if at == ebpf.AttachNone {
			return nil, errors.New("the section does not say whether it parses or judges: write attach: sk_skb/stream_verdict/MAP, or sk_skb/stream_parser/MAP")
		}
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
		return nil, fmt.Errorf("no map %q among those of the program and of `with:`: there are %s", name, strings.Join(slices.Sorted(maps.Keys(a.maps)), ", "))
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

// attachNetfilter takes "ipv4/local_in:priority" (Linux 6.4, 84601d6ee68a).
func attachNetfilter(a attaching) (io.Closer, error) {
	where, priority, _ := strings.Cut(a.target, ":")
	family, at, _ := strings.Cut(where, "/")
	pf, okFamily := netfilterFamilies[family]
	hook, okHook := netfilterHooks[at]
	n := 0
	var err error
	if priority != "" {
		n, err = strconv.Atoi(priority)
	}
	if !okFamily || !okHook || err != nil {
		return nil, fmt.Errorf("a netfilter hook has a family (ipv4, ipv6), a place (%s) and a priority, as in %s",
			strings.Join(slices.Sorted(maps.Keys(netfilterHooks)), ", "), a.kind.example)
	}
	var l link.Link
	err = netns.Do(a.place.Netns, func() error {
		l, err = link.AttachNetfilter(link.NetfilterOptions{Program: a.prog, ProtocolFamily: pf, Hook: hook, Priority: int32(n)})
		return err
	})
	return closer(l, err)
}
