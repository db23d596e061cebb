package packet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// A Template is the header fields of one or more packets. A nil layer is not
// there; a nil field of a layer has its default. TCP, UDP and ICMP without an
// IP layer stand on a default IPv4.
//
// Fields with more than one value are taken together: packet i has value i of
// each, a field that has come to its end starts anew, and the packets end
// where all of them would start anew together. So two fields of the same
// length rotate side by side, and lengths with no common divisor give every
// combination.
type Template struct {
	Ethernet Ethernet
	VLANs    []VLAN // outermost first, at most [MaxVLANs]
	ARP      *ARP
	IPv4     *IPv4
	IPv6     *IPv6
	TCP      *TCP
	UDP      *UDP
	ICMP     *ICMP
	// Payload follows the last header.
	Payload []byte
	// Size is the bytes of the frame, filled up with zeros that count as
	// payload; nil is the natural size, which is not padded to the 60 bytes of
	// a wire: a veth pair does not, either.
	Size *Span[uint16]
}

// MaxVLANs is how many tags a frame may have.
const MaxVLANs = 4

// Defaults of fields. The addresses are those of documentation (RFC 5737, RFC
// 3849) and locally administered ones: they are nobody's.
var (
	DefaultSrcMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	DefaultDstMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	DefaultSrc4   = netip.MustParseAddr("192.0.2.1")
	DefaultDst4   = netip.MustParseAddr("198.51.100.1")
	DefaultSrc6   = netip.MustParseAddr("2001:db8::1")
	DefaultDst6   = netip.MustParseAddr("2001:db8::2")
)

// Default numbers of fields.
const (
	DefaultTTL     = 64
	DefaultSrcPort = 40000
	DefaultTCPPort = 80
	DefaultUDPPort = 53
	DefaultWindow  = 65535
	// noProtocol is what RFC 3692 keeps for experiments: the protocol of an
	// IP packet without a transport header.
	noProtocol = 253
	// noEtherType is what IEEE 802 keeps for experiments: the type of a frame
	// without a network header.
	noEtherType = 0x88b5
)

// Ethernet is the outermost header.
type Ethernet struct {
	Src, Dst net.HardwareAddr
	// Type overrides what the next header makes it.
	Type *uint16
}

// VLAN is an 802.1Q tag.
type VLAN struct {
	ID       *Span[uint16] // 0 to 4095; default 1
	Priority uint8         // 0 to 7
	// Type is the EtherType that announces the tag: 0x8100 by default, 0x88a8
	// for a service tag.
	Type *uint16
}

// ARP asks for Dst on behalf of Src; the hardware addresses are Ethernet's.
type ARP struct {
	Op       *uint16 // 1 request (default), 2 reply
	Src, Dst *Addrs
}

// IPv4 is a header without options.
type IPv4 struct {
	Src, Dst            *Addrs
	TTL, TOS            *Span[uint8]
	ID                  *Span[uint16]
	Protocol            *Span[uint8] // overrides what the next header makes it
	DontFrag, MoreFrags bool
	FragOffset          uint16 // in units of 8 bytes, 0 to 8191
}

// IPv6 is a header without extensions.
type IPv6 struct {
	Src, Dst        *Addrs
	HopLimit, Class *Span[uint8]
	FlowLabel       *Span[uint32] // 0 to 2²⁰-1
	NextHeader      *Span[uint8]  // overrides what the next header makes it
}

// TCP is a header without options.
type TCP struct {
	SrcPort, DstPort *Span[uint16]
	Seq, Ack         *Span[uint32]
	Window           *Span[uint16]
	Flags            TCPFlags
}

// TCPFlags are the eight flags, as bits of the header's byte.
type TCPFlags uint8

// The flags.
const (
	FIN TCPFlags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

// UDP is a header.
type UDP struct {
	SrcPort, DstPort *Span[uint16]
}

// ICMP is an echo request by default; ICMPv6 when it follows IPv6.
type ICMP struct {
	Type, Code *Span[uint8]
	ID, Seq    *Span[uint16]
}

// Count is how many packets the template stands for. The error tells of fields
// that no packet can have, and of limits.
func (t *Template) Count(limits Limits) (int, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	counts := []uint64{t.Size.Count()}
	for _, v := range t.VLANs {
		counts = append(counts, v.ID.Count())
	}
	if l := t.ARP; l != nil {
		counts = append(counts, l.Src.Count(), l.Dst.Count())
	}
	if l := t.IPv4; l != nil {
		counts = append(counts, l.Src.Count(), l.Dst.Count(), l.TTL.Count(), l.TOS.Count(), l.ID.Count(), l.Protocol.Count())
	}
	if l := t.IPv6; l != nil {
		counts = append(counts, l.Src.Count(), l.Dst.Count(), l.HopLimit.Count(), l.Class.Count(), l.FlowLabel.Count(), l.NextHeader.Count())
	}
	if l := t.TCP; l != nil {
		counts = append(counts, l.SrcPort.Count(), l.DstPort.Count(), l.Seq.Count(), l.Ack.Count(), l.Window.Count())
	}
	if l := t.UDP; l != nil {
		counts = append(counts, l.SrcPort.Count(), l.DstPort.Count())
	}
	if l := t.ICMP; l != nil {
		counts = append(counts, l.Type.Count(), l.Code.Count(), l.ID.Count(), l.Seq.Count())
	}
	n, err := turns(limits.Packets, counts...)
	return int(n), err
}

// check finds what contradicts itself.
func (t *Template) check() error {
	transports := 0
	for _, there := range []bool{t.TCP != nil, t.UDP != nil, t.ICMP != nil} {
		if there {
			transports++
		}
	}
	switch {
	case t.IPv4 != nil && t.IPv6 != nil:
		return errors.New("both ipv4 and ipv6")
	case t.ARP != nil && (t.IPv4 != nil || t.IPv6 != nil || transports > 0):
		return errors.New("arp with ip, tcp, udp or icmp")
	case transports > 1:
		return errors.New("more than one of tcp, udp and icmp")
	case len(t.VLANs) > MaxVLANs:
		return fmt.Errorf("%d vlan tags, at most %d", len(t.VLANs), MaxVLANs)
	}
	for _, v := range t.VLANs {
		if v.ID != nil && v.ID.Last > 4095 || v.Priority > 7 {
			return errors.New("a vlan id above 4095 or a priority above 7")
		}
	}
	if l := t.IPv6; l != nil && l.FlowLabel != nil && l.FlowLabel.Last >= 1<<20 {
		return errors.New("a flow label above 1048575")
	}
	if l := t.IPv4; l != nil && l.FragOffset > 8191 {
		return errors.New("a fragment offset above 8191")
	}
	if t.ARP != nil && !(family(t.ARP.Src, 32) && family(t.ARP.Dst, 32)) ||
		t.IPv4 != nil && !(family(t.IPv4.Src, 32) && family(t.IPv4.Dst, 32)) ||
		t.IPv6 != nil && !(family(t.IPv6.Src, 128) && family(t.IPv6.Dst, 128)) {
		return errors.New("an address of the other family")
	}
	return nil
}

// family tells whether a's addresses have so many bits.
func family(a *Addrs, bits int) bool {
	return a == nil || a.First.BitLen() == bits && a.Last.BitLen() == bits
}
