//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// The answers of XDP programs.
const (
	xdpAborted = 0
	xdpPass    = 2
)

// The values of enum SourceAddr; 0 is that nothing is pushed.
const (
	fizz = iota + 1
	buzz
	fizzBuzz
	fibonacci
)

var versions = []string{"v1_basic", "v2_fizzbuzz", "v3_fibonacci", "v4_lookup"}

// wrapping is is_fibonacci of version 3, and how often its loop runs.
func wrapping(n uint8) (yes bool, loops int) {
	var a, b uint8 = 0, 1
	for ; b < n; loops++ {
		a, b = b, a+b
	}
	return b == n || n == 0, loops
}

// model is what each version pushes for an address.
func model(version string, addr uint32) uint32 {
	n := uint8(addr)
	fib := false
	switch version {
	case "v1_basic":
		return addr
	case "v3_fibonacci":
		fib, _ = wrapping(n)
	case "v4_lookup":
		fib = slices.Contains([]uint8{0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233}, n)
	}
	switch {
	case fib:
		return fibonacci
	case addr%15 == 0:
		return fizzBuzz
	case addr%3 == 0:
		return fizz
	case addr%5 == 0:
		return buzz
	}
	return 0
}

// frame is an Ethernet frame with an empty UDP datagram from the address.
func frame(addr uint32) []byte {
	f := make([]byte, 60)
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00}) // to, from, IPv4
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], 28)
	binary.BigEndian.PutUint32(ip[12:], addr)
	copy(ip[16:], []byte{10, 0, 0, 1})
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	copy(ip[20:], []byte{0x30, 0x39, 0, 53, 0, 8, 0, 0})
	return f
}

// compile makes an object of a version.
func compile(t *testing.T, version string) string {
	t.Helper()
	testkernel.Require(t, testkernel.Clang)
	object := filepath.Join(t.TempDir(), version+".bpf.o")
	out, err := exec.Command("clang", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf",
		"-I", testkernel.IncludeDir(), "-c", "../"+version+".bpf.c", "-o", object).CombinedOutput()
	if err != nil {
		t.Fatalf("clang: %v\n%s", err, out)
	}
	return object
}

// A loaded program and its queue.
type loaded struct {
	program *ebpf.Program
	queue   *ebpf.Map
}

func load(t *testing.T, version string) loaded {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun)
	spec, err := ebpf.LoadCollectionSpec(compile(t, version))
	if err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if version == "v3_fibonacci" && errors.Is(err, unix.E2BIG) {
		t.Skip("this kernel's verifier gives up on the Fibonacci loop, as Linux 6.1 does")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(coll.Close)
	return loaded{coll.Programs[programName], coll.Maps[queueName]}
}

// run gives the program one packet.
func (l loaded) run(t *testing.T, packet []byte) uint32 {
	t.Helper()
	answer, err := l.program.Run(&ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256)})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// pop empties the queue.
func (l loaded) pop(t *testing.T) []uint32 {
	t.Helper()
	var all []uint32
	if _, err := drain(l.queue, func(v uint32) { all = append(all, v) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPrograms gives every version all 256 addresses of the benchmark, and its
// worst one, in the running kernel.
func TestPrograms(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			l := load(t, version)
			for _, addr := range append(addresses(), 0x01ffffff, 0, 0xffffffff) {
				if got := l.run(t, frame(addr)); got != xdpPass {
					t.Fatalf("%#x: answer %d, want XDP_PASS", addr, got)
				}
				var want []uint32
				if v := model(version, addr); v != 0 || version == "v1_basic" {
					want = []uint32{v}
				}
				if got := l.pop(t); !slices.Equal(got, want) {
					t.Errorf("%#x: pushed %d, want %d", addr, got, want)
				}
			}
		})
	}
}

// addresses are 1.0.0.0 to 1.0.0.255.
func addresses() []uint32 {
	all := make([]uint32, 256)
	for i := range all {
		all[i] = 0x01000000 + uint32(i)
	}
	return all
}

// TestMalformed cuts packets short at every length that the kernel takes.
func TestMalformed(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			l := load(t, version)
			ipv4 := frame(0x0100000e) // FizzBuzz, so that every version pushes
			other := slices.Clone(ipv4)
			other[12], other[13] = 0x86, 0xdd
			for n := 14; n <= len(ipv4); n++ {
				want, pushed := uint32(xdpAborted), 0
				if n >= 14+20 {
					want, pushed = xdpPass, 1
				}
				if got := l.run(t, ipv4[:n]); got != want {
					t.Errorf("%d bytes: answer %d, want %d", n, got, want)
				}
				if got := l.pop(t); len(got) != pushed {
					t.Errorf("%d bytes: pushed %d, want %d values", n, got, pushed)
				}
				if got := l.run(t, other[:n]); got != xdpPass {
					t.Errorf("%d bytes of IPv6: answer %d, want XDP_PASS", n, got)
				}
				if got := l.pop(t); len(got) != 0 {
					t.Errorf("%d bytes of IPv6: pushed %d", n, got)
				}
			}
		})
	}
}

// TestFullQueue checks that a full queue keeps what it has and loses no packet.
func TestFullQueue(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			l := load(t, version)
			const entries = 1024
			for i := range uint32(entries + 1) {
				if got := l.run(t, frame(15*(17+i))); got != xdpPass {
					t.Fatalf("packet %d: answer %d, want XDP_PASS", i, got)
				}
			}
			got := l.pop(t)
			if len(got) != entries {
				t.Errorf("%d values, want %d", len(got), entries)
			}
			if want := model(version, 15*17); len(got) > 0 && got[0] != want {
				t.Errorf("first value %d, want the oldest, %d", got[0], want)
			}
		})
	}
}

// TestVersionsDiffer states what the README says of version 3: what it takes for
// Fibonacci numbers that are none, and how long its loop runs.
func TestVersionsDiffer(t *testing.T) {
	var differ []int
	longest := 0
	for n := range 256 {
		addr := 0x01000000 + uint32(n)
		if model("v3_fibonacci", addr) != model("v4_lookup", addr) {
			differ = append(differ, n)
		}
		_, loops := wrapping(uint8(n))
		longest = max(longest, loops)
	}
	if want := []int{241, 245, 247, 253, 255}; !slices.Equal(differ, want) {
		t.Errorf("versions 3 and 4 differ at %d, want %d", differ, want)
	}
	if _, loops := wrapping(255); loops != 381 || longest != loops {
		t.Errorf("the loop runs %d times for 255 and at most %d times; want 381, the most", loops, longest)
	}
}

// TestObjects holds what ebpf-bench.yml counts on: the names, and a queue that
// has room for the 1000 runs between two drains.
func TestObjects(t *testing.T) {
	for _, version := range versions {
		spec, err := ebpf.LoadCollectionSpec(compile(t, version))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, p := range spec.Programs {
			got[name] = fmt.Sprint(p.Type, " ", p.License)
		}
		for name, m := range spec.Maps {
			if m.Type == ebpf.Queue {
				got[name] = fmt.Sprint(m.Type, " ", m.MaxEntries, " ", m.ValueSize)
			}
		}
		want := map[string]string{"fun_xdp": "XDP Dual BSD/GPL", "SOURCE_ADDR_QUEUE": "Queue 1024 4"}
		if !maps.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", version, got, want)
		}
	}
}
