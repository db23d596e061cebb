package packet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxOverhead is what a capture may hold besides the bytes of its packets:
// headers of records, names, comments.
const maxOverhead = 16 << 20

// ReadPcap reads the packets of a capture in the format pcap or pcapng, in
// order. Every packet must be whole and of Ethernet; a capture that holds none
// is an error, as is one beyond the limits.
//
// Note: gopacket's pcapgo reads both formats, too, but brings raw sockets and
// golang.org/x/net along, unpacks gzip without a bound, and takes a torn last
// block for the end.
func ReadPcap(r io.Reader, limits Limits) ([][]byte, error) {
	most := int64(limits.Bytes) + maxOverhead
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > most:
		return nil, fmt.Errorf("capture of more than %d bytes", most)
	}
	records, err := openPcap(b)
	if err != nil {
		return nil, err
	}
	var packets [][]byte
	total := 0
	for rec, err := range records {
		number := len(packets) + 1
		switch {
		case err != nil:
			return nil, fmt.Errorf("packet %d: %w", number, err)
		case rec.link != linkEthernet:
			return nil, fmt.Errorf("packet %d: link type %d, must be Ethernet (%d): capture on an Ethernet device, not on \"any\"", number, rec.link, linkEthernet)
		case uint64(len(rec.data)) < uint64(rec.length):
			// Its headers promise bytes that are not there: another path of
			// the program than the one that was captured.
			return nil, fmt.Errorf("packet %d: cut to %d of %d bytes: capture whole packets (tcpdump -s 0)", number, len(rec.data), rec.length)
		}
		if err := checkFrame(rec.data); err != nil {
			return nil, fmt.Errorf("packet %d: %w", number, err)
		}
		total += len(rec.data)
		if err := limits.check(number, total); err != nil {
			return nil, err
		}
		packets = append(packets, bytes.Clone(rec.data))
	}
	if len(packets) == 0 {
		return nil, errors.New("no packets in the capture")
	}
	return packets, nil
}

// linkEthernet is LINKTYPE_ETHERNET of https://www.tcpdump.org/linktypes.html.
const linkEthernet = 1

// A record is a packet as captured.
type record struct {
	data   []byte // a part of the capture
	length uint32 // on the wire
	link   uint32
}

// openPcap tells the two formats apart by their first bytes.
func openPcap(b []byte) (iter.Seq2[record, error], error) {
	const magicNG = 0x0a0d0d0a // the same in either byte order
	if len(b) < 4 {
		return nil, errors.New("not a capture (pcap or pcapng): shorter than its header")
	}
	if b[0] == 0x1f && b[1] == 0x8b {
		return nil, errors.New("the capture is compressed: gunzip it")
	}
	if binary.BigEndian.Uint32(b) == magicNG {
		return ngRecords(b), nil
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if magic := order.Uint32(b); magic == 0xa1b2c3d4 || magic == 0xa1b23c4d { // µs, ns
			if len(b) < 24 {
				return nil, errTorn
			}
			return pcapRecords(b, order), nil
		}
	}
	return nil, fmt.Errorf("not a capture (pcap or pcapng): starts with %#x", b[:4])
}

var errTorn = errors.New("the capture ends within a record")

// pcapRecords reads the format of draft-ietf-opsawg-pcap: a header of 24 bytes
// that ends in the link type, then records with headers of 16.
func pcapRecords(b []byte, order binary.ByteOrder) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		link := order.Uint32(b[20:])
		for b := b[24:]; len(b) > 0; {
			if len(b) < 16 || uint64(order.Uint32(b[8:])) > uint64(len(b)-16) {
				yield(record{}, errTorn)
				return
			}
			end := 16 + int(order.Uint32(b[8:]))
			if !yield(record{b[16:end:end], order.Uint32(b[12:]), link}, nil) {
				return
			}
			b = b[end:]
		}
	}
}

// A device is what an interface description block says.
type device struct{ link, snap uint32 }

// ngRecords reads the format of draft-ietf-opsawg-pcapng: blocks of type,
// length, body, and the length again.
func ngRecords(b []byte) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		var order binary.ByteOrder
		var devices []device
		for b := b; len(b) > 0; {
			if len(b) < 12 {
				yield(record{}, errTorn)
				return
			}
			section := binary.BigEndian.Uint32(b) == 0x0a0d0d0a
			if section {
				// Each section has its own byte order and devices.
				devices = nil
				switch {
				case binary.LittleEndian.Uint32(b[8:]) == 0x1a2b3c4d:
					order = binary.LittleEndian
				case binary.BigEndian.Uint32(b[8:]) == 0x1a2b3c4d:
					order = binary.BigEndian
				default:
					yield(record{}, errors.New("no byte order in a pcapng section"))
					return
				}
			}
			size := order.Uint32(b[4:])
			if size < 12 || size%4 != 0 || uint64(size) > uint64(len(b)) || order.Uint32(b[size-4:]) != size {
				yield(record{}, fmt.Errorf("a pcapng block of %d bytes, with %d left: %w", size, len(b), errTorn))
				return
			}
			body := b[8 : size-4]
			if !section {
				var rec record
				var err error
				devices, rec, err = ngBlock(order.Uint32(b), body, order, devices)
				if (err != nil || rec.data != nil) && !yield(rec, err) || err != nil {
					return
				}
			}
			b = b[size:]
		}
	}
}

// ngHeaders is what precedes a packet, or is used of a device, in the body of a
// block, by its type.
var ngHeaders = [...]int{1: 8, 2: 20, 3: 4, 6: 20}

// ngBlock reads the body of a block that is not a section header: a device,
// which it appends, a packet, or something else, which it passes over.
func ngBlock(kind uint32, body []byte, order binary.ByteOrder, devices []device) ([]device, record, error) {
	header := 0
	if int(kind) < len(ngHeaders) {
		header = ngHeaders[kind]
	}
	if len(body) < header {
		return devices, record{}, fmt.Errorf("a pcapng block of type %d is too short: %w", kind, errTorn)
	}
	var on, caught, length uint32
	switch kind {
	case 1: // interface description
		return append(devices, device{uint32(order.Uint16(body)), order.Uint32(body[4:])}), record{}, nil
	case 2: // packet (obsolete)
		on, caught, length = uint32(order.Uint16(body)), order.Uint32(body[12:]), order.Uint32(body[16:])
	case 3: // simple packet: of the first device, as long as fits its snap length
		length = order.Uint32(body)
		caught = length
		if len(devices) > 0 && devices[0].snap > 0 {
			caught = min(length, devices[0].snap)
		}
	case 6: // enhanced packet
		on, caught, length = order.Uint32(body), order.Uint32(body[12:]), order.Uint32(body[16:])
	default:
		return devices, record{}, nil
	}
	if uint64(on) >= uint64(len(devices)) {
		return devices, record{}, fmt.Errorf("of device %d, which the capture does not describe", on)
	}
	if uint64(caught) > uint64(len(body)-header) {
		return devices, record{}, errTorn
	}
	data := body[header:][:caught:caught]
	return devices, record{data, length, devices[on].link}, nil
}
