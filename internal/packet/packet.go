package packet

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// MinFrame is the smallest frame in bytes: an Ethernet header, without which
// the kernel refuses a test run.
const MinFrame = 14

// MaxFrame is the largest frame in bytes. (The kernel takes less for most
// programs, about a page for XDP; it says so itself.)
const MaxFrame = 65535

// Limits bound what one source of packets may give. A config is written by
// strangers, and a field of one line may stand for every address there is.
type Limits struct {
	Packets int // how many frames
	Bytes   int // all frames together
}

// DefaultLimits are the limits of one benchmark.
var DefaultLimits = Limits{Packets: 1 << 16, Bytes: 64 << 20}

// ErrLimit is that packets were made or read until the [Limits] were reached.
var ErrLimit = errors.New("too much")

// check tells whether packets of so many bytes in all are within the limits.
func (l Limits) check(packets, bytes int) error {
	if packets > l.Packets {
		return fmt.Errorf("%w: more than %d packets", ErrLimit, l.Packets)
	}
	if bytes > l.Bytes {
		return fmt.Errorf("%w: more than %d bytes of packets", ErrLimit, l.Bytes)
	}
	return nil
}

// ParseHex reads a frame in hexadecimal digits, upper or lower case, that may
// begin with 0x and be parted by spaces, line breaks, ':', '-' or '.'.
func ParseHex(s string) ([]byte, error) {
	b, err := DecodeHex(s)
	if err != nil {
		return nil, err
	}
	return b, checkFrame(b)
}

// DecodeHex reads bytes as [ParseHex] does, of any length but none.
func DecodeHex(s string) ([]byte, error) {
	s = strings.TrimSpace(s)
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n:-.", r) {
			return -1
		}
		return r
	}, s)
	b, err := hex.DecodeString(s)
	var bad hex.InvalidByteError
	switch {
	case errors.Is(err, hex.ErrLength):
		return nil, fmt.Errorf("an odd number of hex digits (%d)", len(s))
	case errors.As(err, &bad):
		return nil, fmt.Errorf("%q is not a hex digit", rune(bad))
	case err != nil:
		return nil, err
	case len(b) == 0:
		return nil, errors.New("no hex digits")
	}
	return b, nil
}

func checkFrame(b []byte) error {
	if len(b) < MinFrame || len(b) > MaxFrame {
		return fmt.Errorf("a frame of %d bytes, must be %d to %d: whole, from the Ethernet header on", len(b), MinFrame, MaxFrame)
	}
	return nil
}
