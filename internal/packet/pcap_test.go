package packet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// A capture is written by hand in either byte order: the reader is not tested
// with its own idea of the format but with the drafts'.
type capture struct {
	order binary.AppendByteOrder
	b     []byte
}

func (c *capture) u16(v ...uint16) *capture {
	for _, x := range v {
		c.b = c.order.AppendUint16(c.b, x)
	}
	return c
}

func (c *capture) u32(v ...uint32) *capture {
	for _, x := range v {
		c.b = c.order.AppendUint32(c.b, x)
	}
	return c
}

func pcapFile(order binary.AppendByteOrder, magic, link uint32, frames ...[]byte) []byte {
	c := (&capture{order: order}).u32(magic).u16(2, 4).u32(0, 0, 65535, link)
	for _, f := range frames {
		c.u32(1, 2, uint32(len(f)), uint32(len(f)))
		c.b = append(c.b, f...)
	}
	return c.b
}

func (c *capture) block(kind uint32, body []byte) *capture {
	body = append(body, make([]byte, -len(body)&3)...)
	size := uint32(len(body) + 12)
	c.u32(kind, size)
	c.b = append(c.b, body...)
	return c.u32(size)
}

func (c *capture) body() *capture { return &capture{order: c.order} }

func ngSection(order binary.AppendByteOrder) *capture {
	c := &capture{order: order}
	return c.block(0x0a0d0d0a, c.body().u32(0x1a2b3c4d).u16(1, 0).u32(0xffffffff, 0xffffffff).b)
}

func (c *capture) device(link uint16, snap uint32) *capture {
	return c.block(1, c.body().u16(link, 0).u32(snap).b)
}

func (c *capture) enhanced(device, caught, length uint32, data []byte) *capture {
	return c.block(6, append(c.body().u32(device, 0, 0, caught, length).b, data...))
}

func frame(n int) []byte {
	f := make([]byte, n)
	for i := range f {
		f[i] = byte(n + i)
	}
	return f
}

func ngFile(order binary.AppendByteOrder) []byte {
	c := ngSection(order).device(1, 0)
	c.enhanced(0, 14, 14, frame(14))
	c.block(5, make([]byte, 12)) // statistics: passed over
	c.block(3, append(c.body().u32(15).b, frame(15)...))
	c.device(1, 100)
	c.block(2, append(c.body().u16(1, 0).u32(0, 0, 17, 17).b, frame(17)...))
	// A second section has its own devices and, here, the other byte order.
	other := binary.AppendByteOrder(binary.LittleEndian)
	if order == other {
		other = binary.BigEndian
	}
	return append(c.b, ngSection(other).device(1, 0).enhanced(0, 60, 60, frame(60)).b...)
}

func TestReadPcap(t *testing.T) {
	three := [][]byte{frame(14), frame(60), frame(1514)}
	four := [][]byte{frame(14), frame(15), frame(17), frame(60)}
	for _, c := range []struct {
		name string
		in   []byte
		want [][]byte
	}{
		{"pcap little", pcapFile(binary.LittleEndian, 0xa1b2c3d4, 1, three...), three},
		{"pcap big", pcapFile(binary.BigEndian, 0xa1b2c3d4, 1, three...), three},
		{"pcap ns", pcapFile(binary.LittleEndian, 0xa1b23c4d, 1, three...), three},
		{"pcapng little", ngFile(binary.LittleEndian), four},
		{"pcapng big", ngFile(binary.BigEndian), four},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadPcap(bytes.NewReader(c.in), DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", c.want) {
				t.Errorf("got %x", got)
			}
			// A file that ends anywhere else than after a packet or block is
			// never read as if it were whole.
			torn := 0
			for n := range c.in {
				got, err := ReadPcap(bytes.NewReader(c.in[:n]), DefaultLimits)
				if err != nil {
					torn++
				} else if len(got) >= len(c.want) {
					t.Fatalf("%d packets of %d bytes of %d", len(got), n, len(c.in))
				}
			}
			if whole := len(c.in) - torn; whole > 8 {
				t.Errorf("%d beginnings of the file are read without error", whole)
			}
		})
	}
}

func TestReadPcapRefuses(t *testing.T) {
	le := binary.LittleEndian
	cut := (&capture{order: le, b: pcapFile(le, 0xa1b2c3d4, 1)}).u32(0, 0, 14, 1514)
	cut.b = append(cut.b, frame(14)...)
	for _, c := range []struct {
		name string
		in   []byte
		l    Limits
		want string
	}{
		{"nothing", nil, DefaultLimits, "not a capture"},
		{"text", []byte("version: 1\n"), DefaultLimits, "not a capture (pcap or pcapng): starts with 0x76657273"},
		{"gzip", []byte{0x1f, 0x8b, 8, 0}, DefaultLimits, "gunzip"},
		{"no packets", pcapFile(le, 0xa1b2c3d4, 1), DefaultLimits, "no packets in the capture"},
		{"any device", pcapFile(le, 0xa1b2c3d4, 113, frame(60)), DefaultLimits, "packet 1: link type 113, must be Ethernet"},
		{"raw ip among ethernet", ngSection(le).device(1, 0).device(101, 0).enhanced(0, 14, 14, frame(14)).enhanced(1, 20, 20, frame(20)).b, DefaultLimits, "packet 2: link type 101"},
		{"cut", cut.b, DefaultLimits, "packet 1: cut to 14 of 1514 bytes"},
		{"cut by the device", ngSection(le).device(1, 14).block(3, append((&capture{order: le}).u32(99).b, frame(14)...)).b, DefaultLimits, "packet 1: cut to 14 of 99"},
		{"runt", pcapFile(le, 0xa1b2c3d4, 1, frame(60), frame(13)), DefaultLimits, "packet 2: a frame of 13 bytes"},
		{"many", pcapFile(le, 0xa1b2c3d4, 1, frame(60), frame(60)), Limits{1, 1000}, "more than 1 packets"},
		{"large", pcapFile(le, 0xa1b2c3d4, 1, frame(60), frame(60)), Limits{9, 119}, "more than 119 bytes"},
		{"length of 4 GiB", (&capture{order: le, b: pcapFile(le, 0xa1b2c3d4, 1)}).u32(0, 0, 1<<32-1, 1<<32-1).b, DefaultLimits, "packet 1: the capture ends within a record"},
		{"unknown device", ngSection(le).enhanced(0, 14, 14, frame(14)).b, DefaultLimits, "of device 0, which the capture does not describe"},
		{"data beyond the block", ngSection(le).device(1, 0).enhanced(0, 1<<31, 1<<31, frame(14)).b, DefaultLimits, "packet 1: the capture ends within a record"},
		{"block of length 0", append(ngSection(le).b, make([]byte, 12)...), DefaultLimits, "a pcapng block of 0 bytes"},
		{"no byte order", append([]byte{0x0a, 0x0d, 0x0d, 0x0a}, make([]byte, 24)...), DefaultLimits, "no byte order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadPcap(bytes.NewReader(c.in), c.l)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d packets, error %v, want %q", len(got), err, c.want)
			}
		})
	}
}

// endless never ends: what is read is bounded by the limits, not by the source.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) { e.read += len(b); return len(b), nil }

func TestReadPcapEndless(t *testing.T) {
	src := &endless{}
	if _, err := ReadPcap(src, Limits{1, 1}); err == nil || !strings.Contains(err.Error(), "capture of more than") {
		t.Errorf("error %v", err)
	}
	if src.read > 4*maxOverhead {
		t.Errorf("%d bytes read", src.read)
	}
}

func FuzzReadPcap(f *testing.F) {
	f.Add(pcapFile(binary.LittleEndian, 0xa1b2c3d4, 1, frame(14), frame(60)))
	f.Add(pcapFile(binary.BigEndian, 0xa1b23c4d, 1, frame(14)))
	f.Add(ngFile(binary.LittleEndian))
	f.Add(ngFile(binary.BigEndian))
	f.Fuzz(func(t *testing.T, in []byte) {
		limits := Limits{Packets: 8, Bytes: 1000}
		packets, err := ReadPcap(bytes.NewReader(in), limits)
		if (err == nil) != (len(packets) > 0) {
			t.Fatalf("%d packets and error %v", len(packets), err)
		}
		total := 0
		for _, p := range packets {
			if len(p) < MinFrame || !bytes.Contains(in, p) {
				t.Fatalf("packet %x is not in the capture", p)
			}
			total += len(p)
		}
		if len(packets) > limits.Packets || total > limits.Bytes {
			t.Fatalf("%d packets of %d bytes", len(packets), total)
		}
	})
}
