//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethernetHeader is the bytes before a frame's payload; AF_PACKET takes no
// shorter frame (ETH_HLEN).
const ethernetHeader = 14

// maxFrame is the longest frame that a veth carries (ETH_MAX_MTU and header).
const maxFrame = 65535 + ethernetHeader

// batch is the packets of one sendmmsg. The receiving end of a veth that runs
// XDP natively has a ring of 256 (VETH_RING_SIZE in drivers/net/veth.c); each
// batch is seen through before the next is sent, so half of that cannot
// overflow.
const batch = 128

// packetSocket opens a socket that sends whole frames through one interface and
// receives nothing. With bypass, frames go to the driver at once, past queueing
// disciplines and tc's egress hook (PACKET_QDISC_BYPASS, Linux 3.14).
func packetSocket(index int, bypass bool) (int, error) {
	// Protocol 0: no frame is ever delivered to it.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w (needs CAP_NET_RAW)", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index}); err == nil && bypass {
		err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("open a packet socket on interface %d: %w", index, err)
	}
	return fd, nil
}

// mmsghdr is struct mmsghdr of include/linux/socket.h; the compiler pads it as
// C does.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// A train is the benchmark's packets, ready to be sent round and round.
type train struct {
	// msgs holds the packets once and then again as many as a batch needs, so
	// that a batch that begins at any packet is one slice.
	msgs  []mmsghdr
	count int
}

func newTrain(packets [][]byte) (*train, error) {
	if len(packets) == 0 {
		return nil, errors.New("no packets to send")
	}
	iov := make([]unix.Iovec, len(packets))
	for i, p := range packets {
		switch {
		case len(p) < ethernetHeader:
			return nil, fmt.Errorf("packet %d has %d bytes: a frame on a wire has at least its Ethernet header, %d", i, len(p), ethernetHeader)
		case len(p) > maxFrame:
			return nil, fmt.Errorf("packet %d has %d bytes: a veth carries at most %d", i, len(p), maxFrame)
		}
		iov[i].Base = &p[0]
		iov[i].SetLen(len(p))
	}
	t := &train{msgs: make([]mmsghdr, len(packets)+batch), count: len(packets)}
	for i := range t.msgs {
		t.msgs[i].hdr.Iov = &iov[i%len(iov)]
		t.msgs[i].hdr.SetIovlen(1)
	}
	return t, nil
}

// patience is how long a packet may take to run the program. On a host whose
// CPUs are all busy the kernel's thread may wait that long for its turn. Where
// packets are lost anyway, a tenth of it.
const patience = 200 * time.Millisecond

// send sends n packets from the given one on, at most a batch, and returns the
// packet that is next. What the kernel keeps refusing is passed over: it is
// missing in the run counts, and told there.
func (t *train) send(socket, first, n int) (next int, err error) {
	var refused time.Time
	for n > 0 {
		sent, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(socket), uintptr(unsafe.Pointer(&t.msgs[first])), uintptr(n), 0, 0, 0)
		switch errno {
		case 0:
			n -= int(sent)
			first = (first + int(sent)) % t.count
		case unix.EINTR:
		case unix.ENOBUFS, unix.EAGAIN:
			// A full queue, which the kernel's thread may be about to work off,
			// or a frame that the other end does not take.
			if refused.IsZero() {
				refused = time.Now()
			} else if time.Since(refused) > patience/10 {
				n--
				first = (first + 1) % t.count
				continue
			}
			time.Sleep(100 * time.Microsecond)
		case unix.ENETDOWN:
			return first, fmt.Errorf("send packet %d: the interface is down: %w", first, errno)
		default:
			return first, fmt.Errorf("send packet %d: %w", first, errno)
		}
	}
	return first, nil
}

// A shape is how the packets of a round fall into readings and bursts.
type shape struct {
	readings []int // packets of each reading
	burst    int   // packets between two emptyings of the drained maps, at most
}

// newShape splits count packets into readings of whole passes over the set of
// packets where that leaves several, so that every reading is of the same work.
// A burst fits into the smallest of the drained maps.
func newShape(count, packets, smallest int) shape {
	const want = 256
	size := count // too few passes for a median: one reading of all
	switch {
	case packets <= want:
		size = want / packets * packets
	case count/packets >= 3:
		size = packets
	}
	s := shape{burst: want}
	if smallest > 0 {
		s.burst = min(s.burst, smallest)
	}
	for left := count; left > 0; {
		n := size
		if left < 2*size {
			n = left // what is left over joins the last reading
		}
		s.readings = append(s.readings, n)
		left -= n
	}
	return s
}
