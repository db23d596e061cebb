//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/netns"
	"github.com/org/ebpf-bench-gate/internal/packet"
	"github.com/org/ebpf-bench-gate/internal/work"
)

// traffic compares ways of sending packets through one veth pair.
func traffic(l *lab) ([]row, error) {
	const count, times = 1_000_000, 3
	place, err := work.New(work.Options{Dir: l.temp})
	if err != nil {
		return nil, err
	}
	defer place.Close()
	server, name, index, err := place.Interface("server")
	if err != nil {
		return nil, err
	}
	drop, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "gate_drop", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	if err != nil {
		return nil, err
	}
	defer drop.Close()
	var hook link.Link
	if err := netns.Do(server, func() error {
		hook, err = link.AttachXDP(link.XDPOptions{Program: drop, Interface: index, Flags: link.XDPDriverMode})
		return err
	}); err != nil {
		return nil, err
	}
	defer hook.Close()
	received := func() (n uint64, err error) {
		err = netns.Do(server, func() error {
			dev, err := netlink.LinkByName(name)
			if err == nil {
				n = dev.Attrs().Statistics.RxPackets
			}
			return err
		})
		return n, err
	}

	frame := udp()
	capture := filepath.Join(l.temp, "frame.pcap")
	if err := writePcap(capture, frame); err != nil {
		return nil, err
	}
	sender := func(live bool) func() error {
		return func() error {
			client, err := place.Namespace("client")
			if err != nil {
				return err
			}
			at, err := place.First("client")
			if err != nil {
				return err
			}
			t, err := bpf.NewTraffic(bpf.TrafficOptions{Netns: client, Interface: at, Packets: [][]byte{frame}, Count: count, Live: live})
			if err != nil {
				return err
			}
			defer t.Close()
			return t.Send(l.ctx)
		}
	}
	tool := func(name, arguments string) func() error {
		return func() error {
			if _, err := exec.LookPath(name); err != nil {
				return fmt.Errorf("%s is not installed", name)
			}
			j, err := place.Ready("client", false)
			if err != nil {
				return err
			}
			defer j.Close()
			_, err = j.Run(l.ctx, name+" "+arguments, time.Minute, place.Env("client", -1))
			return err
		}
	}
	ways := []struct {
		name string
		send func() error
		best float64
		err  error
	}{
		{name: "socket", send: sender(false)},
		{name: "live frames", send: sender(true)},
		{name: "tcpreplay", send: tool("tcpreplay", fmt.Sprintf("--quiet --topspeed --preload-pcap --loop %d --intf1 server %s", count, capture))},
		{name: "xdp-trafficgen", send: tool("xdp-trafficgen", fmt.Sprintf("udp --dst-mac 02:00:00:00:00:02 --num-packets %d server", count))},
	}
	for range times {
		for i := range ways {
			w := &ways[i]
			if w.err != nil {
				continue
			}
			before, err := received()
			if err != nil {
				return nil, err
			}
			start := time.Now()
			if w.err = w.send(); w.err != nil {
				if l.ctx.Err() != nil {
					return nil, w.err
				}
				continue
			}
			took := time.Since(start)
			after, err := received()
			if err != nil {
				return nil, err
			}
			w.best = max(w.best, float64(after-before)/took.Seconds())
		}
	}
	if ways[0].err != nil {
		return nil, ways[0].err
	}
	var rows []row
	for _, w := range ways[1:] {
		r := row{what: "packets/s by a packet socket", measured: fmt.Sprintf("%.0f", ways[0].best)}
		if w.err != nil {
			said := strings.Split(w.err.Error(), "\n")
			r.beside = w.name + " did not start here: " + strings.TrimSpace(said[len(said)-1])
		} else {
			r.beside, r.ratio = fmt.Sprintf("%s: %.0f", w.name, w.best), fmt.Sprintf("%.1f×", ways[0].best/w.best)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// udp is the first UDP packet of the built-in set.
func udp() []byte {
	const protocol, ofUDP = 23, 17
	all := packet.BuiltIn()
	return all[slices.IndexFunc(all, func(p []byte) bool { return len(p) > protocol && p[protocol] == ofUDP })]
}

// writePcap writes a capture of one frame (https://www.tcpdump.org/manpages/pcap-savefile.5.html).
func writePcap(name string, frame []byte) error {
	const magic, ethernet, longest = 0xa1b2c3d4, 1, 65535
	order := binary.NativeEndian
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(order.AppendUint16(b, 2), 4)
	for _, v := range []int{0, 0, longest, ethernet, 0, 0, len(frame), len(frame)} {
		b = order.AppendUint32(b, uint32(v))
	}
	return os.WriteFile(name, append(b, frame...), 0o644)
}
