package packet

import (
	"fmt"
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Expand makes the packets of a template, in order, with lengths and checksums
// computed. An error is about the template, never about one host.
func (t *Template) Expand(limits Limits) ([][]byte, error) {
	n, err := t.Count(limits)
	if err != nil {
		return nil, err
	}
	packets := make([][]byte, 0, n)
	buf := gopacket.NewSerializeBuffer()
	total := 0
	for i := range uint64(n) {
		frame, err := t.frame(buf, i)
		if err != nil {
			return nil, err
		}
		total += len(frame)
		if err := limits.check(len(packets)+1, total); err != nil {
			return nil, err
		}
		packets = append(packets, frame)
	}
	return packets, nil
}

// frame is packet i.
func (t *Template) frame(buf gopacket.SerializeBuffer, i uint64) ([]byte, error) {
	stack := t.stack(i)
	payload := t.Payload
	headers, err := serialize(buf, stack, nil)
	if err != nil {
		return nil, err
	}
	natural := len(headers) + len(payload)
	if natural > MaxFrame {
		return nil, fmt.Errorf("headers and payload of %d bytes, at most %d", natural, MaxFrame)
	}
	if t.Size != nil {
		size := int(t.Size.at(i, 0))
		if size < natural {
			return nil, fmt.Errorf("size %d is below the %d bytes of headers and payload", size, natural)
		}
		payload = append(payload[:len(payload):len(payload)], make([]byte, size-natural)...)
	}
	return serialize(buf, stack, payload)
}

// serialize writes layers and payload. gopacket pads frames to the 60 bytes of
// a wire, which is cut off again.
func serialize(buf gopacket.SerializeBuffer, stack []gopacket.SerializableLayer, payload []byte) ([]byte, error) {
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, append(stack[1:len(stack):len(stack)], gopacket.Payload(payload))...); err != nil {
		return nil, err
	}
	natural := len(buf.Bytes()) + MinFrame
	if err := stack[0].SerializeTo(buf, opts); err != nil {
		return nil, err
	}
	return append([]byte(nil), buf.Bytes()[:natural]...), nil
}

// stack is the headers of packet i, outermost first; the first is Ethernet's.
func (t *Template) stack(i uint64) []gopacket.SerializableLayer {
	eth := &layers.Ethernet{SrcMAC: mac(t.Ethernet.Src, DefaultSrcMAC), DstMAC: mac(t.Ethernet.Dst, DefaultDstMAC)}
	stack := []gopacket.SerializableLayer{eth}

	// Every tag holds the type of what follows it, so each layer sets the
	// type of the one before.
	next := &eth.EthernetType
	for _, v := range t.VLANs {
		*next = layers.EthernetTypeDot1Q
		if v.Type != nil {
			*next = layers.EthernetType(*v.Type)
		}
		tag := &layers.Dot1Q{VLANIdentifier: v.ID.at(i, 1), Priority: v.Priority}
		next = &tag.Type
		stack = append(stack, tag)
	}
	network := t.network(next, eth, i)
	stack = append(stack, network...)
	if t.Ethernet.Type != nil {
		eth.EthernetType = layers.EthernetType(*t.Ethernet.Type)
	}
	return stack
}

// network is the headers after Ethernet's and the tags'; it sets what these
// announce.
func (t *Template) network(announced *layers.EthernetType, eth *layers.Ethernet, i uint64) []gopacket.SerializableLayer {
	v4 := t.IPv4
	if v4 == nil && t.IPv6 == nil && (t.TCP != nil || t.UDP != nil || t.ICMP != nil) {
		v4 = &IPv4{}
	}
	switch {
	case t.ARP != nil:
		*announced = layers.EthernetTypeARP
		return []gopacket.SerializableLayer{t.ARP.layer(eth, i)}
	case v4 != nil:
		*announced = layers.EthernetTypeIPv4
		ip := v4.layer(i)
		transport := t.transport(&ip.Protocol, ip, i)
		if v4.Protocol != nil {
			ip.Protocol = layers.IPProtocol(v4.Protocol.at(i, 0))
		}
		return append([]gopacket.SerializableLayer{ip}, transport...)
	case t.IPv6 != nil:
		*announced = layers.EthernetTypeIPv6
		ip := t.IPv6.layer(i)
		transport := t.transport(&ip.NextHeader, ip, i)
		if t.IPv6.NextHeader != nil {
			ip.NextHeader = layers.IPProtocol(t.IPv6.NextHeader.at(i, 0))
		}
		return append([]gopacket.SerializableLayer{ip}, transport...)
	default:
		*announced = noEtherType
		return nil
	}
}

// transport is the header after IP's, with ip in its checksum; it sets the
// protocol that IP announces.
func (t *Template) transport(announced *layers.IPProtocol, ip gopacket.NetworkLayer, i uint64) []gopacket.SerializableLayer {
	switch {
	case t.TCP != nil:
		*announced = layers.IPProtocolTCP
		tcp := t.TCP.layer(i)
		_ = tcp.SetNetworkLayerForChecksum(ip) // fails only for layers that are not IP
		return []gopacket.SerializableLayer{tcp}
	case t.UDP != nil:
		*announced = layers.IPProtocolUDP
		udp := &layers.UDP{
			SrcPort: layers.UDPPort(t.UDP.SrcPort.at(i, DefaultSrcPort)),
			DstPort: layers.UDPPort(t.UDP.DstPort.at(i, DefaultUDPPort)),
		}
		_ = udp.SetNetworkLayerForChecksum(ip)
		return []gopacket.SerializableLayer{udp}
	case t.ICMP != nil && t.IPv6 != nil:
		*announced = layers.IPProtocolICMPv6
		icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(t.ICMP.Type.at(i, layers.ICMPv6TypeEchoRequest), t.ICMP.Code.at(i, 0))}
		_ = icmp.SetNetworkLayerForChecksum(ip)
		echo := &layers.ICMPv6Echo{Identifier: t.ICMP.ID.at(i, 1), SeqNumber: t.ICMP.Seq.at(i, 1)}
		return []gopacket.SerializableLayer{icmp, echo}
	case t.ICMP != nil:
		*announced = layers.IPProtocolICMPv4
		return []gopacket.SerializableLayer{&layers.ICMPv4{
			TypeCode: layers.CreateICMPv4TypeCode(t.ICMP.Type.at(i, layers.ICMPv4TypeEchoRequest), t.ICMP.Code.at(i, 0)),
			Id:       t.ICMP.ID.at(i, 1),
			Seq:      t.ICMP.Seq.at(i, 1),
		}}
	default:
		*announced = noProtocol
		return nil
	}
}

func (a *ARP) layer(eth *layers.Ethernet, i uint64) *layers.ARP {
	op := uint16(layers.ARPRequest)
	if a.Op != nil {
		op = *a.Op
	}
	target := eth.DstMAC
	if op == layers.ARPRequest {
		target = make(net.HardwareAddr, 6) // it is what the request asks for
	}
	return &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
		HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
		SourceHwAddress: eth.SrcMAC, SourceProtAddress: a.Src.at(i, DefaultSrc4).AsSlice(),
		DstHwAddress: target, DstProtAddress: a.Dst.at(i, DefaultDst4).AsSlice(),
	}
}

func (ip *IPv4) layer(i uint64) *layers.IPv4 {
	l := &layers.IPv4{
		Version: 4,
		SrcIP:   ip.Src.at(i, DefaultSrc4).AsSlice(),
		DstIP:   ip.Dst.at(i, DefaultDst4).AsSlice(),
		TTL:     ip.TTL.at(i, DefaultTTL),
		TOS:     ip.TOS.at(i, 0),
		Id:      ip.ID.at(i, 0), FragOffset: ip.FragOffset,
	}
	if ip.DontFrag {
		l.Flags |= layers.IPv4DontFragment
	}
	if ip.MoreFrags {
		l.Flags |= layers.IPv4MoreFragments
	}
	return l
}

func (ip *IPv6) layer(i uint64) *layers.IPv6 {
	return &layers.IPv6{
		Version:      6,
		SrcIP:        ip.Src.at(i, DefaultSrc6).AsSlice(),
		DstIP:        ip.Dst.at(i, DefaultDst6).AsSlice(),
		HopLimit:     ip.HopLimit.at(i, DefaultTTL),
		TrafficClass: ip.Class.at(i, 0),
		FlowLabel:    ip.FlowLabel.at(i, 0),
	}
}

func (t *TCP) layer(i uint64) *layers.TCP {
	return &layers.TCP{
		SrcPort: layers.TCPPort(t.SrcPort.at(i, DefaultSrcPort)),
		DstPort: layers.TCPPort(t.DstPort.at(i, DefaultTCPPort)),
		Seq:     t.Seq.at(i, 1),
		Ack:     t.Ack.at(i, 0),
		Window:  t.Window.at(i, DefaultWindow),
		FIN:     t.Flags&FIN != 0, SYN: t.Flags&SYN != 0, RST: t.Flags&RST != 0, PSH: t.Flags&PSH != 0,
		ACK: t.Flags&ACK != 0, URG: t.Flags&URG != 0, ECE: t.Flags&ECE != 0, CWR: t.Flags&CWR != 0,
	}
}

func mac(a, def net.HardwareAddr) net.HardwareAddr {
	if a == nil {
		return def
	}
	return a
}
