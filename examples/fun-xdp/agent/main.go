// Command agent attaches a version of fun_xdp to a network interface and logs
// what the program says about the packets that arrive there, until Ctrl-C or
// SIGTERM.
//
//	agent -iface eth0 -object v4_lookup.bpf.o
//
// It knows no version: whether the queue carries addresses or names is read from
// the object's type information. It is part of the running example, not of
// gate, and imports nothing of it, so that it can be copied.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

const (
	programName = "fun_xdp"
	queueName   = "SOURCE_ADDR_QUEUE"
	// The queue has no way to wake a reader. It holds 1024 entries, so at this
	// pace it loses none below 50,000 packets a second.
	pollEvery = 20 * time.Millisecond
)

var modes = map[string]link.XDPAttachFlags{
	"auto":    0, // the kernel takes native where the driver has it
	"native":  link.XDPDriverMode,
	"generic": link.XDPGenericMode,
}

func main() {
	iface := flag.String("iface", "", "network `interface` to attach to")
	object := flag.String("object", "v4_lookup.bpf.o", "compiled eBPF `file`")
	mode := flag.String("mode", "auto", "where the program runs: auto, native (in the driver) or generic")
	flag.Parse()
	flags, ok := modes[*mode]
	if *iface == "" || !ok || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	// Before anything is attached, so that no signal finds us unprepared.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(ctx, log, *iface, *object, flags)
	stop()
	if err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
}

// run attaches the program and drains its queue until the context ends. What it
// attached is gone when it returns.
func run(ctx context.Context, log *slog.Logger, iface, object string, flags link.XDPAttachFlags) (err error) {
	dev, err := net.InterfaceByName(iface)
	if err != nil {
		return fmt.Errorf("interface %s: %w", iface, err)
	}
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		return fmt.Errorf("read %s: %w", object, err)
	}
	queueSpec := spec.Maps[queueName]
	if queueSpec == nil || spec.Programs[programName] == nil {
		return fmt.Errorf("%s has no program %s with a map %s", object, programName, queueName)
	}
	// Kernels before 5.11 charge programs and maps to RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil {
		return fmt.Errorf("raise RLIMIT_MEMLOCK: %w", err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load %s: %w", object, err)
	}
	defer coll.Close()

	l, err := link.AttachXDP(link.XDPOptions{Program: coll.Programs[programName], Interface: dev.Index, Flags: flags})
	if err != nil {
		return fmt.Errorf("attach to %s: %w", iface, err)
	}
	// The kernel detaches when the link's last descriptor is closed, which also
	// covers a kill -9.
	defer func() {
		if cerr := l.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("detach from %s: %w", iface, cerr)
		}
	}()
	log.Info("attached", "program", programName, "interface", iface, "object", object)

	describe := describer(queueSpec.Value)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	total := 0
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false // and drain what came before
		case <-tick.C:
		}
		n, err := drain(coll.Maps[queueName], func(value uint32) { log.Info("packet", describe(value)...) })
		total += n
		if err != nil {
			return fmt.Errorf("read %s: %w", queueName, err)
		}
	}
	log.Info("stopped", "interface", iface, "values", total)
	return nil
}

// drain pops values until the queue is empty. It takes no more than the queue
// holds, so that a flood of packets cannot keep it from its caller.
func drain(queue *ebpf.Map, each func(uint32)) (n int, err error) {
	for ; n < int(queue.MaxEntries()); n++ {
		var value uint32
		switch err := queue.LookupAndDelete(nil, &value); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return n, nil
		case err != nil:
			return n, err
		}
		each(value)
	}
	return n, nil
}

// describer says how a value is logged: by the name that the enum gives it, or as
// an address.
func describer(t btf.Type) func(uint32) []any {
	enum, ok := btf.As[*btf.Enum](t)
	if !ok {
		return func(value uint32) []any {
			var ip [4]byte
			binary.BigEndian.PutUint32(ip[:], value)
			return []any{"source", netip.AddrFrom4(ip)}
		}
	}
	names := make(map[uint32]string, len(enum.Values))
	for _, v := range enum.Values {
		names[uint32(v.Value)] = v.Name
	}
	return func(value uint32) []any {
		if name, ok := names[value]; ok {
			return []any{"source", name}
		}
		return []any{"source", value}
	}
}
