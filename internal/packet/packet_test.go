package packet

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// decode reads a frame with a decoder that did not write it, and fails where
// bytes are left that no layer explains.
func decode(t *testing.T, frame []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("%x: %v", frame, e.Error())
	}
	return p
}

func names(p gopacket.Packet) string {
	var s []string
	for _, l := range p.Layers() {
		s = append(s, l.LayerType().String())
	}
	return strings.Join(s, " ")
}

func TestTemplateLayers(t *testing.T) {
	tpid := uint16(0x88a8)
	for _, c := range []struct {
		name   string
		t      Template
		layers string
		size   int
	}{
		{"nothing but a header", Template{}, "Ethernet", 14},
		{"ip alone", Template{IPv4: &IPv4{}}, "Ethernet IPv4", 34},
		{"tcp stands on ipv4", Template{TCP: &TCP{}}, "Ethernet IPv4 TCP", 54},
		{"udp", Template{IPv6: &IPv6{}, UDP: &UDP{DstPort: Num[uint16](9)}, Payload: []byte("abc")}, "Ethernet IPv6 UDP Payload", 65},
		{"icmp", Template{ICMP: &ICMP{}}, "Ethernet IPv4 ICMPv4", 42},
		{"icmp6", Template{IPv6: &IPv6{}, ICMP: &ICMP{}}, "Ethernet IPv6 ICMPv6 ICMPv6Echo", 62},
		{"arp", Template{ARP: &ARP{}}, "Ethernet ARP", 42},
		{"two tags", Template{VLANs: []VLAN{{Type: &tpid}, {ID: Num[uint16](4095), Priority: 7}}, UDP: &UDP{DstPort: Num[uint16](9)}}, "Ethernet Dot1Q Dot1Q IPv4 UDP", 50},
		{"sized", Template{UDP: &UDP{DstPort: Num[uint16](9)}, Size: Num[uint16](1514)}, "Ethernet IPv4 UDP Payload", 1514},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames, err := c.t.Expand(DefaultLimits)
			if err != nil || len(frames) != 1 {
				t.Fatalf("%d frames, %v", len(frames), err)
			}
			if len(frames[0]) != c.size {
				t.Errorf("%d bytes, want %d", len(frames[0]), c.size)
			}
			if got := names(decode(t, frames[0])); got != c.layers {
				t.Errorf("layers %s, want %s", got, c.layers)
			}
		})
	}
}

// Fields land where the standards have them: one frame is compared with bytes
// that were written by hand.
func TestTemplateBytes(t *testing.T) {
	tpl := Template{
		Ethernet: Ethernet{Src: net.HardwareAddr{10, 11, 12, 13, 14, 15}, Dst: net.HardwareAddr{20, 21, 22, 23, 24, 25}},
		IPv4: &IPv4{
			Src: Addr("1.2.3.4"), Dst: Addr("5.6.7.8"), TTL: Num[uint8](9), TOS: Num[uint8](0x10),
			ID: Num[uint16](0x1234), DontFrag: true,
		},
		TCP: &TCP{
			SrcPort: Num[uint16](0x1122), DstPort: Num[uint16](0x3344), Seq: Num[uint32](0x55667788),
			Ack: Num[uint32](0x99aabbcc), Window: Num[uint16](0xddee), Flags: SYN | ACK | CWR,
		},
	}
	frames, err := tpl.Expand(DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseHex(`141516171819 0a0b0c0d0e0f 0800
		45 10 0028 1234 4000 09 06 0000 01020304 05060708
		1122 3344 55667788 99aabbcc 50 92 ddee 0000 0000`)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(want[24:], ^sum(want[14:34], 0))
	binary.BigEndian.PutUint16(want[50:], ^sum(want[34:], uint32(6+20)+uint32(sum(want[26:34], 0))))
	if diff := cmp.Diff(want, frames[0]); diff != "" {
		t.Errorf("want %x\ngot  %x", want, frames[0])
	}
}

// sum is the ones' complement sum of RFC 1071.
func sum(b []byte, s uint32) uint16 {
	for i := 0; i < len(b); i++ {
		s += uint32(b[i]) << (8 * (1 - i%2))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// Every checksum of every built-in packet holds, odd payloads and IPv6
// included: the sum over header and pseudo header is all ones.
func TestBuiltIn(t *testing.T) {
	kinds := make(map[string]bool)
	for i, frame := range BuiltIn() {
		p := decode(t, frame)
		kinds[names(p)] = true
		if len(frame) < MinFrame || len(frame) > 1514 {
			t.Errorf("packet %d has %d bytes", i, len(frame))
		}
		var pseudo uint32
		var rest []byte
		switch ip := p.NetworkLayer().(type) {
		case *layers.IPv4:
			if sum(ip.Contents, 0) != 0xffff {
				t.Errorf("packet %d: IPv4 checksum", i)
			}
			rest = ip.Payload
			pseudo = uint32(sum(ip.Contents[12:20], 0)) + uint32(ip.Protocol) + uint32(len(rest))
			if ip.Protocol == layers.IPProtocolICMPv4 {
				pseudo = 0
			}
		case *layers.IPv6:
			rest = ip.Payload
			pseudo = uint32(sum(ip.Contents[8:40], 0)) + uint32(ip.NextHeader) + uint32(len(rest))
		default:
			continue
		}
		if sum(rest, pseudo) != 0xffff {
			t.Errorf("packet %d (%s): transport checksum", i, names(p))
		}
	}
	for _, want := range []string{
		"Ethernet IPv4 TCP", "Ethernet IPv4 UDP DNS", "Ethernet IPv4 ICMPv4 Payload", "Ethernet IPv6 TCP",
		"Ethernet IPv6 UDP DNS", "Ethernet ARP", "Ethernet Dot1Q IPv4 UDP DNS",
	} {
		if !kinds[want] {
			t.Errorf("no %s in %v", want, kinds)
		}
	}
	// The caller owns what it gets.
	BuiltIn()[0][0] ^= 0xff
	if bytes.Equal(BuiltIn()[0][:1], []byte{0xfd}) {
		t.Error("a change by one caller is seen by the next")
	}
}

func TestExpandRotates(t *testing.T) {
	ip := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	type row struct {
		src  string
		port uint16
	}
	tpl := Template{
		IPv4: &IPv4{Src: &Addrs{ip("1.0.0.254"), ip("1.0.1.1")}},
		UDP:  &UDP{SrcPort: &Span[uint16]{65530, 65535}},
	}
	frames, err := tpl.Expand(DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	var got []row
	for _, f := range frames {
		p := decode(t, f)
		got = append(got, row{
			p.NetworkLayer().(*layers.IPv4).SrcIP.String(),
			uint16(p.TransportLayer().(*layers.UDP).SrcPort),
		})
	}
	var want []row
	for i := range 12 { // the least common multiple of 4 and 6
		want = append(want, row{[]string{"1.0.0.254", "1.0.0.255", "1.0.1.0", "1.0.1.1"}[i%4], uint16(65530 + i%6)})
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
	again, _ := tpl.Expand(DefaultLimits)
	if diff := cmp.Diff(frames, again); diff != "" {
		t.Errorf("another time, other packets: %s", diff)
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		prefix, last string
		count        uint64
	}{
		{"10.0.0.0/8", "10.255.255.255", 1 << 24},
		{"192.168.0.0/22", "192.168.3.255", 1024},
		{"192.168.0.4/31", "192.168.0.5", 2},
		{"1.2.3.4/32", "1.2.3.4", 1},
		{"0.0.0.0/0", "255.255.255.255", 1 << 32},
		{"2001:db8::/120", "2001:db8::ff", 256},
		{"2001:db8::/61", "2001:db8:0:7:ffff:ffff:ffff:ffff", 1<<64 - 1},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1<<64 - 1},
	} {
		a := Prefix(netip.MustParsePrefix(c.prefix))
		if got := a.Last.String(); got != c.last {
			t.Errorf("%s: last %s, want %s", c.prefix, got, c.last)
		}
		if got := a.Count(); got != c.count {
			t.Errorf("%s: %d addresses, want %d", c.prefix, got, c.count)
		}
	}
	six := Addrs{netip.MustParseAddr("fd00::ffff:ffff:ffff:ffff"), netip.MustParseAddr("fd00:0:0:1::1")}
	if got := six.at(1, netip.Addr{}).String(); got != "fd00:0:0:1::" {
		t.Errorf("the carry into the upper half: %s", got)
	}
}

func TestExpandRefuses(t *testing.T) {
	some := Addr("10.0.0.1")
	for _, c := range []struct {
		name string
		t    Template
		l    Limits
		want string
	}{
		{"two networks", Template{IPv4: &IPv4{}, IPv6: &IPv6{}}, DefaultLimits, "both ipv4 and ipv6"},
		{"two transports", Template{TCP: &TCP{}, UDP: &UDP{}}, DefaultLimits, "more than one of"},
		{"arp with tcp", Template{ARP: &ARP{}, TCP: &TCP{}}, DefaultLimits, "arp with"},
		{"family", Template{IPv6: &IPv6{Src: some}}, DefaultLimits, "other family"},
		{"tags", Template{VLANs: make([]VLAN, 5)}, DefaultLimits, "5 vlan tags"},
		{"vlan id", Template{VLANs: []VLAN{{ID: Num[uint16](4096)}}}, DefaultLimits, "vlan id above 4095"},
		{"label", Template{IPv6: &IPv6{FlowLabel: Num[uint32](1 << 20)}}, DefaultLimits, "flow label"},
		{"offset", Template{IPv4: &IPv4{FragOffset: 8192}}, DefaultLimits, "fragment offset"},
		{"backwards", Template{UDP: &UDP{SrcPort: &Span[uint16]{2, 1}}}, DefaultLimits, "ends before it starts"},
		{"too many in a field", Template{IPv4: &IPv4{Src: Prefix(netip.MustParsePrefix("10.0.0.0/8"))}}, DefaultLimits, "a field of 16777216 values, more than 65536 packets"},
		{"the whole internet", Template{IPv6: &IPv6{Src: Prefix(netip.MustParsePrefix("::/0"))}}, DefaultLimits, "more than 65536 packets"},
		{"too many together", Template{UDP: &UDP{SrcPort: &Span[uint16]{0, 1023}, DstPort: &Span[uint16]{0, 1022}}}, DefaultLimits, "repeat together only after"},
		{"too many bytes", Template{UDP: &UDP{SrcPort: &Span[uint16]{0, 9}}, Size: Num[uint16](100)}, Limits{100, 999}, "more than 999 bytes"},
		{"small size", Template{UDP: &UDP{}, Size: Num[uint16](41)}, DefaultLimits, "size 41 is below the 42 bytes"},
		{"large payload", Template{UDP: &UDP{}, Payload: make([]byte, 65494)}, DefaultLimits, "65536 bytes, at most 65535"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames, err := c.t.Expand(c.l)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d frames, error %v, want %q", len(frames), err, c.want)
			}
		})
	}
	exact := Template{UDP: &UDP{SrcPort: &Span[uint16]{0, 9}}, Size: Num[uint16](100)}
	if frames, err := exact.Expand(Limits{10, 1000}); err != nil || len(frames) != 10 {
		t.Errorf("at the limits: %d frames, %v", len(frames), err)
	}
}

func TestHex(t *testing.T) {
	want := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xfe}
	for _, s := range []string{"000102030405060708090a0b0cfe", "0x000102030405060708090A0B0CFE", "00:01:02:03:04:05 06-07-08-09-0a-0b\n\t0cfe"} {
		if got, err := ParseHex(s); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %x, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"":                           "no hex digits",
		"0x":                         "no hex digits",
		"000":                        "an odd number of hex digits (3)",
		"0g":                         "'g' is not a hex digit",
		"000102030405060708090a0b0c": "a frame of 13 bytes, must be 14 to 65535",
		strings.Repeat("00", 65536):  "a frame of 65536 bytes",
	} {
		if _, err := ParseHex(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", s, err, want)
		}
	}
}
