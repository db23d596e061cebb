package packet

import (
	"bytes"
	"encoding/hex"
	"sync"
)

// BuiltIn is the set used where nobody gave packets: the common kinds of
// traffic once each, small and full-sized, in an order that never changes. The
// caller owns the result.
func BuiltIn() [][]byte {
	set := builtIn()
	own := make([][]byte, len(set))
	for i, p := range set {
		own[i] = bytes.Clone(p)
	}
	return own
}

var builtIn = sync.OnceValue(func() [][]byte {
	// A DNS question for the A record of example.com.
	dns, _ := hex.DecodeString("000101000001000000000000076578616d706c6503636f6d0000010001")
	templates := []Template{
		{TCP: &TCP{Flags: SYN}},
		{TCP: &TCP{Flags: ACK, Ack: Num[uint32](1)}},
		{TCP: &TCP{Flags: ACK | PSH, Ack: Num[uint32](1)}, Size: Num[uint16](1514)},
		{UDP: &UDP{}, Payload: dns},
		{UDP: &UDP{DstPort: Num[uint16](443)}, Size: Num[uint16](1514)},
		{ICMP: &ICMP{}, Size: Num[uint16](98)},
		{IPv6: &IPv6{}, TCP: &TCP{Flags: SYN}},
		{IPv6: &IPv6{}, TCP: &TCP{Flags: ACK, Ack: Num[uint32](1)}},
		{IPv6: &IPv6{}, UDP: &UDP{}, Payload: dns},
		{IPv6: &IPv6{}, ICMP: &ICMP{}, Size: Num[uint16](118)},
		{VLANs: []VLAN{{ID: Num[uint16](100)}}, UDP: &UDP{}, Payload: dns},
		{ARP: &ARP{}},
	}
	var set [][]byte
	for _, t := range templates {
		packets, err := t.Expand(DefaultLimits)
		if err != nil {
			panic("packet: built-in template: " + err.Error()) // no input: a test sees it
		}
		set = append(set, packets...)
	}
	return set
})
