package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/internal/packet"
)

// maxPacketBytes bounds the packets of a whole suite, each of them counted with
// packetCost bytes more.
const (
	maxPacketBytes = 64 << 20
	packetCost     = 64
)

// packets reads the input of a benchmark: a template, {hex: …}, a capture, or
// a list of them.
func (r *reader) packets(n *yaml.Node) [][]byte {
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if sources = n.Content; len(sources) == 0 {
			r.fail(n, "leave packets out to have the built-in set", "no packets")
		}
	}
	var packets [][]byte
	for _, source := range sources {
		if r.packetBytes > maxPacketBytes {
			return nil // which was told when it came to that
		}
		limits := packet.DefaultLimits
		limits.Packets -= len(packets)
		limits.Bytes = min(limits.Bytes, maxPacketBytes-r.packetBytes)
		more, err := r.packetSource(source, limits)
		if err != nil {
			r.fail(source, "", "packets: %s", err)
			if errors.Is(err, packet.ErrLimit) {
				r.packetBytes += limits.Bytes + 1 // what it took to find out
			}
			return nil
		}
		for _, p := range more {
			r.packetBytes += len(p) + packetCost
		}
		packets = append(packets, more...)
		if len(packets) > packet.DefaultLimits.Packets || r.packetBytes > maxPacketBytes {
			r.fail(source, "", "packets: more than %d in a benchmark, or more than %d bytes in the suite", packet.DefaultLimits.Packets, maxPacketBytes)
			return nil
		}
	}
	return packets
}

// packetSource reads one source of packets. Mistakes within it are noted; an error
// is about the whole.
func (r *reader) packetSource(n *yaml.Node, limits packet.Limits) ([][]byte, error) {
	if n.Kind == yaml.MappingNode {
		if len(n.Content) == 2 && n.Content[0].Value == "hex" {
			return r.hexPacket(n.Content[1]), nil
		}
		before := len(r.found)
		t := r.template(n)
		if len(r.found) > before {
			return nil, nil
		}
		return t.Expand(limits)
	}
	const must = "header fields such as {ipv4: {src: 10.0.0.1}}, {hex: …}, the path of a .pcap or .pcapng file, or a list of them"
	w, ok := r.word(n, "packets", must)
	if !ok {
		return nil, nil
	}
	if ext := strings.ToLower(path.Ext(w)); ext != ".pcap" && ext != ".pcapng" {
		r.wrong(n, "packets", must)
		return nil, nil
	}
	name, ok := r.file(n, "the path of a capture")
	if !ok {
		return nil, nil
	}
	packets, err := r.capture(name, limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return packets, nil
}

// capture reads a capture that must be a file in the config's directory,
// wherever its path and the links on it lead.
func (r *reader) capture(name string, limits packet.Limits) ([][]byte, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, reason(err)
	}
	defer root.Close()
	// Opening a pipe or a device may wait for ever, or do something.
	info, err := root.Stat(name)
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	if !slices.Contains(r.captures, name) {
		r.captures = append(r.captures, name)
	}
	packets, err := packet.ReadPcap(f, limits)
	if err != nil {
		r.packetBytes += int(min(info.Size(), maxPacketBytes)) // as if it were good
	}
	return packets, err
}

// reason is an error without the name of the file, which stands beside it.
func reason(err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		return e.Err
	}
	return err
}

func (r *reader) hexPacket(n *yaml.Node) [][]byte {
	w, ok := r.word(n, "hex", "hex digits")
	if !ok {
		return nil
	}
	b, err := packet.ParseHex(w)
	if err != nil {
		r.fail(n, "", "hex: %s", err)
		return nil
	}
	return [][]byte{b}
}

// template reads header fields.
func (r *reader) template(n *yaml.Node) *packet.Template {
	t := &packet.Template{}
	r.mapping(n, "a packet", fields{
		"ethernet": func(_, v *yaml.Node) {
			r.mapping(v, "ethernet", fields{
				"src":  func(_, v *yaml.Node) { t.Ethernet.Src = r.mac(v) },
				"dst":  func(_, v *yaml.Node) { t.Ethernet.Dst = r.mac(v) },
				"type": func(_, v *yaml.Node) { t.Ethernet.Type = r.uint16(v, "type") },
			})
		},
		"vlan": func(_, v *yaml.Node) {
			tags := []*yaml.Node{v}
			if v.Kind == yaml.SequenceNode {
				tags = v.Content
			}
			for _, tag := range tags {
				t.VLANs = append(t.VLANs, r.vlan(tag))
			}
		},
		"arp": func(_, v *yaml.Node) {
			t.ARP = &packet.ARP{}
			r.mapping(v, "arp", fields{
				"op": func(_, v *yaml.Node) {
					op, _ := r.choice(v, "op", "request", "reply")
					code := map[string]uint16{"request": 1, "reply": 2}[op]
					t.ARP.Op = &code
				},
				"src": func(_, v *yaml.Node) { t.ARP.Src = r.addrs(v, 32) },
				"dst": func(_, v *yaml.Node) { t.ARP.Dst = r.addrs(v, 32) },
			})
		},
		"ipv4": func(_, v *yaml.Node) { t.IPv4 = r.ipv4(v) },
		"ipv6": func(_, v *yaml.Node) {
			t.IPv6 = &packet.IPv6{}
			r.mapping(v, "ipv6", fields{
				"src":           func(_, v *yaml.Node) { t.IPv6.Src = r.addrs(v, 128) },
				"dst":           func(_, v *yaml.Node) { t.IPv6.Dst = r.addrs(v, 128) },
				"hop_limit":     func(_, v *yaml.Node) { t.IPv6.HopLimit = span[uint8](r, v, "hop_limit", 8) },
				"traffic_class": func(_, v *yaml.Node) { t.IPv6.Class = span[uint8](r, v, "traffic_class", 8) },
				"flow_label":    func(_, v *yaml.Node) { t.IPv6.FlowLabel = span[uint32](r, v, "flow_label", 20) },
				"next_header":   func(_, v *yaml.Node) { t.IPv6.NextHeader = span[uint8](r, v, "next_header", 8) },
			})
		},
		"tcp": func(_, v *yaml.Node) { t.TCP = r.tcp(v) },
		"udp": func(_, v *yaml.Node) {
			t.UDP = &packet.UDP{}
			r.mapping(v, "udp", fields{
				"sport": func(_, v *yaml.Node) { t.UDP.SrcPort = span[uint16](r, v, "sport", 16) },
				"dport": func(_, v *yaml.Node) { t.UDP.DstPort = span[uint16](r, v, "dport", 16) },
			})
		},
		"icmp": func(_, v *yaml.Node) {
			t.ICMP = &packet.ICMP{}
			r.mapping(v, "icmp", fields{
				"type": func(_, v *yaml.Node) { t.ICMP.Type = span[uint8](r, v, "type", 8) },
				"code": func(_, v *yaml.Node) { t.ICMP.Code = span[uint8](r, v, "code", 8) },
				"id":   func(_, v *yaml.Node) { t.ICMP.ID = span[uint16](r, v, "id", 16) },
				"seq":  func(_, v *yaml.Node) { t.ICMP.Seq = span[uint16](r, v, "seq", 16) },
			})
		},
		"payload": func(_, v *yaml.Node) { t.Payload = r.payload(v) },
		"size":    func(_, v *yaml.Node) { t.Size = span[uint16](r, v, "size", 16) },
	})
	return t
}

func (r *reader) vlan(n *yaml.Node) packet.VLAN {
	var tag packet.VLAN
	r.mapping(n, "vlan", fields{
		"id": func(_, v *yaml.Node) { tag.ID = span[uint16](r, v, "id", 12) },
		"priority": func(_, v *yaml.Node) {
			p, _ := r.integer(v, "priority", 0, 7)
			tag.Priority = uint8(p)
		},
		"type": func(_, v *yaml.Node) { tag.Type = r.uint16(v, "type") },
	})
	return tag
}

func (r *reader) ipv4(n *yaml.Node) *packet.IPv4 {
	ip := &packet.IPv4{}
	r.mapping(n, "ipv4", fields{
		"src":      func(_, v *yaml.Node) { ip.Src = r.addrs(v, 32) },
		"dst":      func(_, v *yaml.Node) { ip.Dst = r.addrs(v, 32) },
		"ttl":      func(_, v *yaml.Node) { ip.TTL = span[uint8](r, v, "ttl", 8) },
		"tos":      func(_, v *yaml.Node) { ip.TOS = span[uint8](r, v, "tos", 8) },
		"id":       func(_, v *yaml.Node) { ip.ID = span[uint16](r, v, "id", 16) },
		"protocol": func(_, v *yaml.Node) { ip.Protocol = span[uint8](r, v, "protocol", 8) },
		"flags": func(_, v *yaml.Node) {
			for _, flag := range r.words(v, "flags", func(e *yaml.Node) (string, bool) { return r.choice(e, "a flag", "df", "mf") }) {
				ip.DontFrag = ip.DontFrag || flag == "df"
				ip.MoreFrags = ip.MoreFrags || flag == "mf"
			}
		},
		"offset": func(_, v *yaml.Node) {
			offset, _ := r.integer(v, "offset", 0, 8191)
			ip.FragOffset = uint16(offset)
		},
	})
	return ip
}

// tcpFlags are the names of the flags, from the lowest bit on.
var tcpFlags = []string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"}

func (r *reader) tcp(n *yaml.Node) *packet.TCP {
	tcp := &packet.TCP{Flags: packet.SYN}
	r.mapping(n, "tcp", fields{
		"sport":  func(_, v *yaml.Node) { tcp.SrcPort = span[uint16](r, v, "sport", 16) },
		"dport":  func(_, v *yaml.Node) { tcp.DstPort = span[uint16](r, v, "dport", 16) },
		"seq":    func(_, v *yaml.Node) { tcp.Seq = span[uint32](r, v, "seq", 32) },
		"ack":    func(_, v *yaml.Node) { tcp.Ack = span[uint32](r, v, "ack", 32) },
		"window": func(_, v *yaml.Node) { tcp.Window = span[uint16](r, v, "window", 16) },
		"flags": func(_, v *yaml.Node) {
			tcp.Flags = 0
			names := r.words(v, "flags", func(e *yaml.Node) (string, bool) { return r.choice(e, "a flag", tcpFlags...) })
			for bit, flag := range tcpFlags {
				for _, name := range names {
					if name == flag {
						tcp.Flags |= 1 << bit
					}
				}
			}
		},
	})
	return tcp
}

// payload is text as it stands, or hex(…).
func (r *reader) payload(n *yaml.Node) []byte {
	w, ok := r.word(n, "payload", "text or hex(…)")
	if !ok {
		return nil
	}
	if m := call.FindStringSubmatch(w); m != nil && m[1] == "hex" {
		b, err := packet.DecodeHex(m[2])
		if err != nil {
			r.fail(n, "", "payload: %s", err)
		}
		return b
	}
	return []byte(w)
}

// span reads a number or a range of so many bits.
func span[T uint8 | uint16 | uint32](r *reader, n *yaml.Node, what string, width int) *packet.Span[T] {
	most := uint64(1)<<width - 1
	must := fmt.Sprintf("a number from 0 to %d, or a range such as 80..89", most)
	w, ok := r.word(n, what, must)
	if !ok {
		return nil
	}
	first, last, ranged := strings.Cut(w, "..")
	if !ranged {
		last = first
	}
	a, negA, okA := parseInt(first)
	b, negB, okB := parseInt(last)
	switch {
	case !okA || !okB || negA || negB || a > most || b > most:
		r.wrong(n, what, must)
		return nil
	case b < a:
		r.fail(n, "", "the range %s ends before it starts", quote(w))
		return nil
	}
	return &packet.Span[T]{First: T(a), Last: T(b)}
}

// addrs reads an address, a CIDR, or a range of addresses.
func (r *reader) addrs(n *yaml.Node, width int) *packet.Addrs {
	family, example := "IPv4", "10.0.0.1, 10.0.0.0/24 or 10.0.0.1..10.0.0.9"
	if width == 128 {
		family, example = "IPv6", "2001:db8::1, 2001:db8::/120 or 2001:db8::1..2001:db8::9"
	}
	must := fmt.Sprintf("an %s address, CIDR or range", family)
	w, ok := r.word(n, "an address", must)
	if !ok {
		return nil
	}
	parse := func(s string) (netip.Addr, bool) {
		a, err := netip.ParseAddr(s)
		return a, err == nil && a.BitLen() == width && a.Zone() == ""
	}
	if prefix, err := netip.ParsePrefix(w); err == nil && prefix.Addr().BitLen() == width {
		if prefix.Masked() != prefix {
			r.fail(n, fmt.Sprintf("write %s", prefix.Masked()), "%s is an address within a network, not a network", quote(w))
			return nil
		}
		return packet.Prefix(prefix)
	}
	first, last, ranged := strings.Cut(w, "..")
	if !ranged {
		last = first
	}
	a, okA := parse(first)
	b, okB := parse(last)
	switch {
	case !okA || !okB:
		r.fail(n, "such as "+example, "%s is not %s", quote(w), must)
		return nil
	case b.Less(a):
		r.fail(n, "", "the range %s ends before it starts", quote(w))
		return nil
	}
	return &packet.Addrs{First: a, Last: b}
}

func (r *reader) mac(n *yaml.Node) net.HardwareAddr {
	w, ok := r.word(n, "an address", "a MAC address")
	if !ok {
		return nil
	}
	m, err := parseMAC(w)
	if err != nil {
		r.fail(n, `such as "02:00:00:00:00:01"`, "%s is not a MAC address", quote(w))
		return nil
	}
	return m
}

func (r *reader) uint16(n *yaml.Node, what string) *uint16 {
	v, _ := r.integer(n, what, 0, 1<<16-1)
	short := uint16(v)
	return &short
}
