package packet

import (
	"fmt"
	"math/bits"
	"net/netip"
)

// A Span is the numbers First to Last, both included, that a field takes in
// turn: one for each packet, and again from First after Last.
type Span[T uint8 | uint16 | uint32] struct{ First, Last T }

// Num is the span of one number.
func Num[T uint8 | uint16 | uint32](n T) *Span[T] { return &Span[T]{n, n} }

// Count is how many numbers s has; 1 for nil, 0 where Last is below First.
func (s *Span[T]) Count() uint64 {
	switch {
	case s == nil:
		return 1
	case s.Last < s.First:
		return 0
	}
	return uint64(s.Last-s.First) + 1
}

// at is the number of packet i, or def if s is nil.
func (s *Span[T]) at(i uint64, def T) T {
	if s == nil {
		return def
	}
	return s.First + T(i%s.Count())
}

// Addrs is the addresses First to Last, both included, of one family, that a
// field takes in turn.
type Addrs struct{ First, Last netip.Addr }

// Addr is the span of one address in text, which must be valid.
func Addr(s string) *Addrs {
	a := netip.MustParseAddr(s)
	return &Addrs{a, a}
}

// Prefix is every address of a prefix, first and last included.
func Prefix(p netip.Prefix) *Addrs {
	first := p.Masked().Addr()
	b := first.As16()
	host := first.BitLen() - p.Bits()
	for i := 15; host > 0; i, host = i-1, host-8 {
		b[i] |= byte(1<<min(host, 8) - 1)
	}
	last := netip.AddrFrom16(b)
	if first.Is4() {
		last = last.Unmap()
	}
	return &Addrs{first, last}
}

// Count is how many addresses a has: 1 for nil, 0 where Last is below First or
// of another family, and no more than 2⁶⁴-1.
func (a *Addrs) Count() uint64 {
	if a == nil {
		return 1
	}
	if a.First.BitLen() != a.Last.BitLen() || a.Last.Less(a.First) {
		return 0
	}
	fh, fl := halves(a.First)
	lh, ll := halves(a.Last)
	low, borrow := bits.Sub64(ll, fl, 0)
	if high, _ := bits.Sub64(lh, fh, borrow); high != 0 || low == 1<<64-1 {
		return 1<<64 - 1
	}
	return low + 1
}

// at is the address of packet i, or def if a is nil.
func (a *Addrs) at(i uint64, def netip.Addr) netip.Addr {
	if a == nil {
		return def
	}
	h, l := halves(a.First)
	l, carry := bits.Add64(l, i%a.Count(), 0)
	h += carry
	var b [16]byte
	for k := range 8 {
		b[7-k], b[15-k] = byte(h>>(8*k)), byte(l>>(8*k))
	}
	if a.First.Is4() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}

func halves(a netip.Addr) (high, low uint64) {
	b := a.As16()
	for k := range 8 {
		high, low = high<<8|uint64(b[k]), low<<8|uint64(b[8+k])
	}
	return high, low
}

// turns is how many packets it takes until every span is at its start again:
// the least common multiple of their counts.
func turns(limit int, counts ...uint64) (uint64, error) {
	all := uint64(1)
	for _, n := range counts {
		if n == 0 {
			return 0, fmt.Errorf("a range that ends before it starts")
		}
		if n > uint64(limit) {
			return 0, fmt.Errorf("a field of %d values, more than %d packets", n, limit)
		}
		// Both factors are at most limit, so nothing overflows.
		if all *= n / gcd(all, n); all > uint64(limit) {
			return 0, fmt.Errorf("fields that repeat together only after %d packets or more, of at most %d", all, limit)
		}
	}
	return all, nil
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
