//go:build linux

package bpf

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestShape(t *testing.T) {
	for _, tt := range []struct {
		count, packets, smallest int
		readings, first, last    int
		burst                    int
	}{
		{5000, 1, 0, 19, 256, 392, 256},
		{5000, 256, 1024, 19, 256, 392, 256},
		{5000, 100, 0, 25, 200, 200, 256}, // whole passes
		{5000, 300, 0, 16, 300, 500, 256}, // a pass is more than a burst
		{5000, 2000, 0, 1, 5000, 5000, 256},
		{5000, 9000, 0, 1, 5000, 5000, 256},
		{100, 1, 0, 1, 100, 100, 256},
		{1, 1, 0, 1, 1, 1, 256},
		{1000, 1, 64, 3, 256, 488, 64},
	} {
		s := newShape(tt.count, tt.packets, tt.smallest)
		total := 0
		for _, n := range s.readings {
			total += n
		}
		if n := len(s.readings); total != tt.count || n != tt.readings || s.readings[0] != tt.first || s.readings[n-1] != tt.last || s.burst != tt.burst {
			t.Errorf("newShape(%d, %d, %d) = %v, of %d packets", tt.count, tt.packets, tt.smallest, s, total)
		}
	}
}

func TestTrain(t *testing.T) {
	packets := [][]byte{make([]byte, 14), make([]byte, 60), make([]byte, 65549)}
	train, err := newTrain(packets)
	if err != nil {
		t.Fatal(err)
	}
	// Any packet may begin a whole batch.
	if n := len(train.msgs); n < len(packets)+batch-1 {
		t.Errorf("%d messages for %d packets", n, len(packets))
	}
	for i, m := range train.msgs {
		if p := packets[i%len(packets)]; m.hdr.Iov.Base != &p[0] || int(m.hdr.Iov.Len) != len(p) {
			t.Fatalf("message %d is not packet %d", i, i%len(packets))
		}
	}
	// struct mmsghdr of the kernel, 64 bits wide.
	if s := unsafe.Sizeof(mmsghdr{}); unsafe.Sizeof(uintptr(0)) == 8 && s != 64 {
		t.Errorf("struct mmsghdr has %d bytes, want 64", s)
	}
	for _, tt := range []struct {
		packets [][]byte
		want    string
	}{
		{nil, "no packets"},
		{append(slices.Clone(packets), nil), "packet 3 has 0 bytes"},
		{[][]byte{make([]byte, 13)}, "at least its Ethernet header"},
		{[][]byte{make([]byte, 65550)}, "at most 65549"},
	} {
		if _, err := newTrain(tt.packets); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want one with %q", err, tt.want)
		}
	}
}
