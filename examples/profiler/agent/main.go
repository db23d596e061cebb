// Command agent samples what the CPUs do, and shows each sample with its stacks,
// until Ctrl-C or SIGTERM.
//
//	agent -freq 50 -pid 4711 -object profiler.bpf.o
//
// It is part of the running example, not of gate, and imports nothing of it, so that
// it can be copied. gate profile is a profiler for every day.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/examples/profiler/event"
	print "github.com/org/ebpf-bench-gate/examples/profiler/v3"
)

func main() {
	object := flag.String("object", "profiler.bpf.o", "compiled eBPF `file`")
	freq := flag.Uint64("freq", 50, "samples a second of each CPU")
	pid := flag.Uint("pid", 0, "only this `process`; 0: all")
	flag.Parse()
	if *freq == 0 || *freq > 10_000 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	// Before anything is attached, so that no signal finds us unprepared.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(ctx, log, print.New(os.Stdout, newNames()), *object, *freq, uint32(*pid))
	stop()
	if err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
}

// run samples until the context ends. What it attached is gone when it returns.
func run(ctx context.Context, log *slog.Logger, out *print.Printer, object string, freq uint64, pid uint32) error {
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		return fmt.Errorf("read %s: %w", object, err)
	}
	if v := spec.Variables["only"]; v == nil {
		return fmt.Errorf("%s has no variable only", object)
	} else if err := v.Set(pid); err != nil {
		return err
	}
	// Kernels before 5.11 charge programs and maps to RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil {
		return fmt.Errorf("raise RLIMIT_MEMLOCK: %w", err)
	}
	var objects struct {
		Profile *ebpf.Program  `ebpf:"profile"`
		Samples *ebpf.Map      `ebpf:"samples"`
		Lost    *ebpf.Variable `ebpf:"lost"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return fmt.Errorf("load %s: %w", object, err)
	}
	defer objects.Profile.Close()
	defer objects.Samples.Close()
	events, err := attach(objects.Profile, freq)
	// The kernel ends an event when its descriptor is closed, which also covers a
	// kill -9.
	defer func() {
		for _, fd := range events {
			_ = unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	reader, err := ringbuf.NewReader(objects.Samples)
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	defer reader.Close()
	context.AfterFunc(ctx, func() { reader.Close() })
	log.Info("sampling", "cpus", len(events), "freq", freq)
	total, err := show(reader, out)
	var lost uint64
	if e := objects.Lost.Get(&lost); e == nil {
		log.Info("done", "samples", total, "lost", lost)
	}
	return err
}

// attach has every online CPU run the program so often a second, while it has work.
func attach(prog *ebpf.Program, freq uint64) (events []int, err error) {
	for cpu := range ebpf.MustPossibleCPU() {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: freq, Bits: unix.PerfBitFreq,
		}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) { // offline
			continue
		}
		if err != nil {
			return events, fmt.Errorf("open a perf event on CPU %d: %w", cpu, err)
		}
		events = append(events, fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
			return events, fmt.Errorf("attach to CPU %d: %w", cpu, err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return events, fmt.Errorf("start on CPU %d: %w", cpu, err)
		}
	}
	return events, nil
}

// show writes samples until the reader is closed.
func show(reader *ringbuf.Reader, out *print.Printer) (total int, err error) {
	var record ringbuf.Record
	var s event.Sample
	for {
		if err := reader.ReadInto(&record); errors.Is(err, ringbuf.ErrClosed) {
			return total, out.Flush()
		} else if err != nil {
			return total, fmt.Errorf("read a sample: %w", err)
		}
		total++
		if err := event.Decode(record.RawSample, &s); err != nil {
			return total, err
		}
		if err := out.ProcessSample(&s); err != nil {
			return total, err
		}
	}
}
