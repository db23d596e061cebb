//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/netns"
)

// recorded is a read of a group as the kernel writes it.
func recorded(words ...uint64) []byte {
	var b bytes.Buffer
	for _, w := range words {
		_ = binary.Write(&b, binary.NativeEndian, w)
	}
	return b.Bytes()
}

func TestPerfDecode(t *testing.T) {
	r, err := decodePerf(recorded(2, 1000, 400, 7, 9), 2)
	if err != nil || r.enabled != 1000 || r.running != 400 || !slices.Equal(r.values, []uint64{7, 9}) {
		t.Errorf("%+v, %v", r, err)
	}
	for name, b := range map[string][]byte{
		"nothing":       nil,
		"half a header": recorded(1, 2),
		"another group": recorded(3, 1, 1, 7, 8, 9),
		"cut short":     recorded(2, 1, 1, 7),
		"too long":      recorded(2, 1, 1, 7, 8, 9),
	} {
		if r, err := decodePerf(b, 2); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Where counters are shared, what was counted for a part of the time is scaled to
// all of it.
func TestPerfScaling(t *testing.T) {
	at := func(enabled, running uint64, values ...uint64) perfReading {
		return perfReading{enabled, running, values}
	}
	for _, tt := range []struct {
		name          string
		before, after perfReading
		want          []float64
		share         float64
	}{
		{"all of the time", at(100, 100, 5, 50), at(1100, 1100, 15, 250), []float64{10, 200}, 1},
		{"half of it", at(100, 100, 5, 50), at(1100, 600, 15, 250), []float64{20, 400}, 0.5},
		{"never before, then always", at(1000, 0, 0, 0), at(1500, 500, 8, 2), []float64{8, 2}, 1},
		{"not in this stretch", at(100, 50, 5, 50), at(1100, 50, 5, 50), nil, 0},
		{"no time", at(100, 100, 5, 50), at(100, 100, 5, 50), nil, 0},
		{"a clock's rounding", at(0, 0, 0, 0), at(1000, 1001, 3, 4), []float64{3, 4}, 1},
	} {
		if got, share := tt.after.since(tt.before); !slices.Equal(got, tt.want) || share != tt.share {
			t.Errorf("%s: %v of %v of the time, want %v of %v", tt.name, got, share, tt.want, tt.share)
		}
	}
	two := func(x, y perfReading) moment { return moment{hard: []perfReading{x, y}} }
	v, share := two(at(1000, 500, 10), at(1000, 250, 1)).hardware(two(at(0, 0, 0), at(0, 0, 0)))
	if !slices.Equal(v, []float64{20, 4}) || share != 0.25 {
		t.Errorf("two groups that take turns: %v of %v", v, share)
	}
	if v, share := two(at(1000, 500, 10), at(1000, 0, 0)).hardware(two(at(0, 0, 0), at(0, 0, 0))); v != nil || share != 0 {
		t.Errorf("a group that had no turn: %v of %v", v, share)
	}
	if v, _ := (moment{}).hardware(moment{}); v != nil {
		t.Errorf("no groups: %v", v)
	}
}

// A CPU with room for so many events at once, and without some.
func cpuWith(room int, without ...string) (open perfOpener, groups *[][]string) {
	groups = &[][]string{}
	return func(e perfEvent, leader int) (int, error) {
		switch {
		case slices.Contains(without, e.name):
			return -1, unix.ENOENT
		case leader < 0:
			*groups = append(*groups, []string{e.name})
		case len((*groups)[leader]) == room:
			return -1, unix.EINVAL
		default:
			(*groups)[leader] = append((*groups)[leader], e.name)
			return 1000 + leader, nil // never read
		}
		return len(*groups) - 1, nil
	}, groups
}

func TestPerfGroups(t *testing.T) {
	for _, tt := range []struct {
		room    int
		without []string
		want    string
		missing string
	}{
		{7, nil, "[[cycles instructions branch_misses l1d_misses llc_misses itlb_misses dtlb_misses]]", ""},
		{4, nil, "[[cycles instructions branch_misses l1d_misses] [llc_misses itlb_misses dtlb_misses]]", ""},
		{2, []string{"llc_misses"}, "[[cycles instructions] [branch_misses l1d_misses] [itlb_misses dtlb_misses]]", "llc_misses"},
		{1, []string{"itlb_misses", "dtlb_misses"}, "[[cycles] [instructions] [branch_misses] [l1d_misses] [llc_misses]]", "itlb_misses dtlb_misses"},
	} {
		open, opened := cpuWith(tt.room, tt.without...)
		groups, missing, err := openGroups(hardwareEvents, open)
		if err != nil || fmt.Sprint(*opened) != tt.want || strings.Join(missing, " ") != tt.missing {
			t.Errorf("room for %d: %v, missing %v, %v", tt.room, *opened, missing, err)
		}
		var names []string
		for _, g := range groups {
			for _, e := range g.events {
				names = append(names, e.name)
			}
			if len(g.fds) != len(g.events) || len(g.buf) != 8*(3+len(g.events)) {
				t.Errorf("group %+v", g)
			}
		}
		if len(names)+len(missing) != len(hardwareEvents) {
			t.Errorf("%v and %v are not all", names, missing)
		}
	}
	if _, _, err := openGroups(hardwareEvents, func(perfEvent, int) (int, error) { return -1, unix.ENOENT }); err == nil {
		t.Error("a host without counters has some")
	}
}

// A group of software events, which every kernel has, really counts what happens.
func TestPerfSoftware(t *testing.T) {
	done := make(chan error)
	netns.Go(func() {
		done <- func() error {
			groups, missing, err := openGroups(softwareEvents, openPerf)
			if err != nil || len(groups) != 1 || len(missing) != 0 {
				return fmt.Errorf("skip: %v, %w", missing, err)
			}
			g := groups[0]
			defer g.close()
			before, err := g.read()
			if err != nil {
				return err
			}
			const pages, naps = 64, 5
			size := pages * unix.Getpagesize()
			mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return err
			}
			defer unix.Munmap(mem)
			_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
			for i := 0; i < size; i += unix.Getpagesize() {
				mem[i] = 1
			}
			for range naps {
				ts := unix.NsecToTimespec(int64(time.Millisecond))
				_ = unix.Nanosleep(&ts, nil)
			}
			after, err := g.read()
			if err != nil {
				return err
			}
			v, share := after.since(before)
			if share != 1 || len(v) != 3 || v[0] < naps || v[2] < pages {
				return fmt.Errorf("switches, migrations, faults: %v of %v of the time; want at least %d switches and %d faults", v, share, naps, pages)
			}
			return nil
		}()
	})
	if err := <-done; err != nil {
		if strings.HasPrefix(err.Error(), "skip: ") {
			t.Skip(err)
		}
		t.Error(err)
	}
	runtime.KeepAlive(done)
}

// A session's gauges, whichever the host has, and its samples with what a CPU's
// counters would give.
func TestPerfSamples(t *testing.T) {
	s := newTestSession(t)
	m, err := s.Micro(bench.Benchmark{Name: "reference/x", Program: ReferenceProgram, Packets: ipv4(3)}, Side{"base", Reference()}, Side{"head", Reference()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	names, reason := s.Hardware()
	if len(names) == 0 && reason == "" {
		t.Error("no counters, and nothing says why")
	}
	if len(names) > 0 {
		t.Logf("this host counts %v", names)
	} else {
		t.Logf("no counters: %s", reason)
	}
	// Software events in the place of the CPU's: all else is as it would be.
	var fake []*perfGroup
	err = s.do(func() error {
		var err error
		events := []perfEvent{{bench.Cycles, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK}, {bench.Instructions, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK}}
		fake, _, err = openGroups(events, openPerf)
		return err
	})
	if err != nil {
		t.Skipf("no software events: %v", err)
	}
	was := *s.gauge
	s.gauge.hard, s.gauge.names = fake, []string{bench.Cycles, bench.Instructions}
	defer func() {
		closeAll(fake)
		*s.gauge = was
	}()
	samples, err := m.Round(3)
	if err != nil {
		t.Fatal(err)
	}
	counters := m.Counters()
	if len(counters) != 2 || len(counters[0]) != 2 || len(counters[1]) != 2 {
		t.Fatalf("counters %+v", counters)
	}
	for i, side := range counters {
		for _, c := range side {
			// Clocks in ns: of a reading's calls and of what stands around them.
			if c.Round != 3 || c.Offset != -1 || c.Counted != 0 || c.Value < samples[i].Value/2 || c.Floor <= 0 {
				t.Errorf("side %d: %+v beside %+v", i, c, samples[i])
			}
		}
	}
}
