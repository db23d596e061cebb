//go:build linux

package bpf

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/internal/netns"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// trafficPair makes a veth pair within one namespace, with an XDP program on the
// receiving end, whose index it returns, and tells how many packets came there.
func trafficPair(t testing.TB) (o TrafficOptions, end int, received func() uint64) {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	o = TrafficOptions{Netns: ns, Packets: [][]byte{worst(), worst()}}
	p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: ebpf.XDP}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	err = netns.Do(ns, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}); err != nil {
			return err
		}
		for _, name := range []string{"a", "b"} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := bringUp(l); err != nil {
				return err
			}
			if name == "a" {
				o.Interface = l.Attrs().Index
				continue
			}
			end = l.Attrs().Index
			x, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: end, Flags: link.XDPDriverMode})
			if err != nil {
				return err
			}
			t.Cleanup(func() { x.Close() })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o, end, func() (n uint64) {
		err := netns.Do(ns, func() error {
			l, err := netlink.LinkByName("b")
			if err == nil {
				n = l.Attrs().Statistics.RxPackets
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// arrived waits until so many packets are there.
func arrived(received func() uint64, want uint64) uint64 {
	var got uint64
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if got = received(); got >= want {
			break
		}
	}
	return got
}

func TestTraffic(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("live %t", live), func(t *testing.T) {
			o, _, received := trafficPair(t)
			o.Count, o.Live = 1000, live
			g, err := NewTraffic(o)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			before := received()
			if err := g.Send(context.Background()); err != nil {
				t.Fatal(err)
			}
			want := uint64(1000)
			if live {
				want = 256 // the ring of the other end: a busy host loses what is beyond
			}
			if got := arrived(received, before+want) - before; got < want || got > 1000 || g.Sent() != 1000 {
				t.Errorf("%d packets arrived of %d sent", got, g.Sent())
			}
		})
	}
}

func TestTrafficInTime(t *testing.T) {
	o, _, _ := trafficPair(t)
	o.Count, o.Rate = 50, 500
	g, err := NewTraffic(o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	began := time.Now()
	if err := g.Send(context.Background()); err != nil {
		t.Fatal(err)
	}
	// It can be later than that on a busy host, and never earlier.
	if took := time.Since(began); took < 98*time.Millisecond || g.Sent() != 50 {
		t.Errorf("%d packets at 500/s in %v", g.Sent(), took)
	}
	g.o.Count, g.o.Rate, g.o.Duration = 0, 0, 300*time.Millisecond
	began = time.Now()
	if err := g.Send(context.Background()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 300*time.Millisecond || g.Sent() == 0 {
		t.Errorf("%d packets in %v", g.Sent(), took)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.o.Duration = time.Hour
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := g.Send(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkTraffic is how many packets go in a second.
func BenchmarkTraffic(b *testing.B) {
	for _, live := range []bool{false, true} {
		b.Run(fmt.Sprintf("live=%t", live), func(b *testing.B) {
			o, _, _ := trafficPair(b)
			o.Count, o.Live = 100_000, live
			o.Packets = o.Packets[:1]
			g, err := NewTraffic(o)
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			for b.Loop() {
				if err := g.Send(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(o.Count)*float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
