//go:build linux

package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/netns"
)

// A Traffic sends packets through an interface. Close it.
type Traffic struct {
	o      TrafficOptions
	train  *train
	socket int           // -1: live frames
	live   *ebpf.Program // redirects each frame to the interface
	sent   int
}

// TrafficOptions say what a [Traffic] sends, and how.
type TrafficOptions struct {
	// Netns and Interface are where packets leave; they arrive at the other end.
	Netns     *os.File
	Interface int
	// Packets are whole frames, sent one after the other, over and over.
	Packets [][]byte
	// Count is how many one Send sends; 0 is [bench.DefaultVethCount], or, with a
	// Duration, as many as go in it.
	Count    int
	Duration time.Duration
	// Rate is packets a second; 0 is as fast as they go.
	Rate float64
	// Live sends XDP frames, by test runs of a program that redirects them
	// (BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18, b530e9e1063e). They are taken only
	// where the other end runs a native XDP program, and each packet is sent many
	// times in a row. On a veth pair of Linux 6.18 they were half as fast as a socket.
	Live bool
}

// NewTraffic opens what sends the packets.
func NewTraffic(o TrafficOptions) (*Traffic, error) {
	if o.Count == 0 && o.Duration == 0 {
		o.Count = bench.DefaultVethCount
	}
	t := &Traffic{o: o, socket: -1}
	var err error
	if t.train, err = newTrain(o.Packets); err != nil {
		return nil, err
	}
	err = netns.Do(o.Netns, func() error {
		if o.Live {
			t.live, err = newRedirector(o.Interface)
		} else {
			t.socket, err = packetSocket(o.Interface, true)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// newRedirector loads an XDP program that sends every frame through an interface.
func newRedirector(index int) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gate_traffic", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(index)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("load the program that sends live frames: %w", err)
	}
	return p, nil
}

// Send sends the packets, beginning where the last Send ended.
func (t *Traffic) Send(ctx context.Context) error {
	t.sent = 0
	if t.live != nil {
		return netns.Do(t.o.Netns, func() error { return t.sendLive(ctx) })
	}
	began := time.Now()
	size := batch
	if t.o.Rate > 0 {
		// A batch each millisecond, or single packets.
		size = max(1, min(batch, int(t.o.Rate/1000)))
	}
	for next := 0; t.left(began) > 0; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := min(size, t.left(began))
		if t.o.Rate > 0 {
			due := time.Duration(float64(t.sent) / t.o.Rate * float64(time.Second))
			if wait := due - time.Since(began); wait > 0 {
				time.Sleep(min(wait, 100*time.Millisecond)) // and ask again whether to go on
				if wait > 100*time.Millisecond {
					continue
				}
			}
		}
		var err error
		if next, err = t.train.send(t.socket, next, n); err != nil {
			return err
		}
		t.sent += n
	}
	return nil
}

// left is how many packets are still to be sent.
func (t *Traffic) left(began time.Time) int {
	if t.o.Duration > 0 {
		if time.Since(began) < t.o.Duration {
			return batch
		}
		return 0
	}
	return t.o.Count - t.sent
}

// Frames of one call share one packet. A call takes a tenth of a millisecond to be
// prepared; what is not asked to end in it goes on for some ms.
const (
	leastFrames = 64
	mostFrames  = 16384
)

// sendLive runs on a thread in the namespace.
func (t *Traffic) sendLive(ctx context.Context) error {
	const liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	chunk := mostFrames
	if t.o.Count > 0 {
		chunk = max(leastFrames, min(mostFrames, t.o.Count/len(t.o.Packets)))
	}
	began := time.Now()
	for i := 0; t.left(began) > 0; i++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := chunk
		if t.o.Count > 0 {
			n = min(n, t.left(began))
		}
		run := newTestRun(t.live.FD(), t.o.Packets[i%len(t.o.Packets)], nil, 0)
		run.attr.flags, run.attr.batchSize = liveFrames, 256
		_, _, err := run.call(n)
		switch {
		case errors.Is(err, errInterrupted):
			// Some of them left; so few more or less are within what is measured.
		case errors.Is(err, unix.EINVAL):
			return fmt.Errorf("send live frames: %w (needs Linux 5.18)", err)
		case err != nil:
			return fmt.Errorf("send live frames: %w", err)
		}
		t.sent += n
	}
	return nil
}

// Sent is how many packets the last Send has sent.
func (t *Traffic) Sent() int { return t.sent }

// Close closes what sends.
func (t *Traffic) Close() {
	if t.socket >= 0 {
		_ = unix.Close(t.socket)
	}
	if t.live != nil {
		_ = t.live.Close()
	}
}
