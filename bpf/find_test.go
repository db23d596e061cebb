//go:build linux

package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/netns"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestFindLoaded(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	last, err := LastProgram()
	if err != nil {
		t.Fatal(err)
	}
	a, b := named(t, "first_of_the_found_programs"), named(t, "second")
	want := []uint32{idOf(t, a), idOf(t, b)}
	ids, err := LoadedAfter(last)
	if err != nil || !slices.Contains(ids, want[0]) || !slices.Contains(ids, want[1]) {
		t.Errorf("loaded after %d: %v, %v; want %v", last, ids, err, want)
	}
	gone := idOf(t, b)
	b.Close()
	infos, err := Describe([]uint32{want[0], gone})
	if err != nil || len(infos) != 1 || infos[0].Name != "first_of_the_found_programs" || infos[0].ID != want[0] {
		t.Errorf("%+v, %v", infos, err)
	}
	before, n := Holdings(os.Getpid())
	if !slices.Contains(before, want[0]) || n == 0 {
		t.Errorf("holds %v in %d descriptors", before, n)
	}
	c, err := a.Clone()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if after, m := Holdings(os.Getpid()); !slices.Equal(before, after) || m != n+1 {
		t.Errorf("one descriptor more of the same: %v, %d; before %v, %d", after, m, before, n)
	}
}

// What is told of a program by its id is what is told of one's own.
func TestStaticByID(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Clang)
	testkernel.NoLeaks(t)
	l, err := compile(t, "testdata/types.bpf.c").Load("xdp_encap", LoadOptions{Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own, err := Static(l)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for _, r := range own {
		want[r.Measure] = r.Samples[0].Value
	}
	got, err := StaticByID(idOf(t, l.Program))
	if err != nil || len(got) < 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, r := range got {
		if r.Program != "xdp_encap" || r.Kind != bench.Static || len(r.Samples) != 1 || r.Samples[0].Value != want[r.Measure] {
			t.Errorf("%+v, want %v", r, want[r.Measure])
		}
	}
	if at := OffsetByID(idOf(t, l.Program)); at != l.offset() {
		t.Errorf("starts at %d, want %d", at, l.offset())
	}
	if _, err := StaticByID(1<<31 - 1); err == nil {
		t.Error("of no program")
	}
}

func TestFindPinned(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	p := named(t, "pinned")
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// A bpffs on a thread of its own, so that the host never sees it.
	done := make(chan error)
	var ids []uint32
	netns.Go(func() {
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			dir := "/sys/fs/bpf"
			if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
				return err
			}
			deep := filepath.Join(dir, "a", "b")
			if err := os.MkdirAll(deep, 0o700); err != nil {
				return err
			}
			if err := p.Pin(filepath.Join(deep, "prog")); err != nil {
				return err
			}
			if err := m.Pin(filepath.Join(dir, "map")); err != nil {
				return err
			}
			if err := os.Symlink("/", filepath.Join(dir, "everything")); err != nil {
				return err
			}
			ids, err = Pinned("/proc/thread-self/root" + dir)
			return err
		}()
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids, []uint32{idOf(t, p)}) {
		t.Errorf("pinned: %v, want %d", ids, idOf(t, p))
	}
	if ids, err := Pinned("/no/such/directory"); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestFindOnInterfaces(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	load := func(typ ebpf.ProgramType) *ebpf.Program {
		p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: typ}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	xdp, tcx, filter := load(ebpf.XDP), load(ebpf.SchedCLS), load(ebpf.SchedCLS)
	stop, ready := make(chan struct{}), make(chan error)
	var ns *os.File
	want := []uint32{idOf(t, xdp), idOf(t, filter)}
	netns.Go(func() {
		ready <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}); err != nil {
				return err
			}
			a, err := netlink.LinkByName("a")
			if err != nil {
				return err
			}
			b, err := netlink.LinkByName("b")
			if err != nil {
				return err
			}
			l, err := link.AttachXDP(link.XDPOptions{Program: xdp, Interface: a.Attrs().Index, Flags: link.XDPGenericMode})
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
			if on, err := link.AttachTCX(link.TCXOptions{Program: tcx, Interface: a.Attrs().Index, Attach: ebpf.AttachTCXEgress}); err == nil {
				t.Cleanup(func() { on.Close() })
				want = append(want, idOf(t, tcx))
			} else if !errors.Is(err, ebpf.ErrNotSupported) { // Linux 6.6
				return err
			}
			h, err := newFilterHook(b.Attrs().Index, ingress)
			if err == nil {
				err = h.put(filter)
			}
			if err == nil {
				ns, err = os.Open("/proc/thread-self/ns/net")
			}
			return err
		}()
		<-stop
	})
	defer close(stop)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	slices.Sort(want)
	if ids, err := OnInterfaces(ns, ""); err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v; want %v", ids, err, want)
	}
	if ids, err := OnInterfaces(ns, "b"); err != nil || !slices.Equal(ids, []uint32{idOf(t, filter)}) {
		t.Errorf("on b: %v, %v; want %d", ids, err, idOf(t, filter))
	}
	if _, err := OnInterfaces(ns, "c"); err == nil {
		t.Error("there is an interface c")
	}
	if ids, err := OnInterfaces(nil, "lo"); err != nil || slices.Contains(ids, idOf(t, xdp)) {
		t.Errorf("of the host: %v, %v", ids, err)
	}
}

// What was attached without a link is taken off whatever its mode.
func TestClearInterfaces(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	load := func(typ ebpf.ProgramType) *ebpf.Program {
		p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: typ}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	xdp, filter := load(ebpf.XDP), load(ebpf.SchedCLS)
	err = netns.Do(ns, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}); err != nil {
			return err
		}
		for name, mode := range map[string]int{"a": unix.XDP_FLAGS_SKB_MODE, "b": unix.XDP_FLAGS_DRV_MODE} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetXdpFdWithFlags(l, xdp.FD(), mode); err != nil {
				return err
			}
			h, err := newFilterHook(l.Attrs().Index, egress)
			if err != nil {
				return err
			}
			if err := h.put(filter); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := OnInterfaces(ns, ""); err != nil || len(ids) != 2 {
		t.Errorf("%v, %v; want %d and %d", ids, err, idOf(t, xdp), idOf(t, filter))
	}
	if err := ClearInterfaces(ns); err != nil {
		t.Error(err)
	}
	if ids, err := OnInterfaces(ns, ""); err != nil || len(ids) != 0 {
		t.Errorf("%v are left, %v", ids, err)
	}
}

func TestFindOnCgroup(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	// A hierarchy mounted on a thread of its own.
	p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetIngress}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	done := make(chan error)
	var ids, none []uint32
	netns.Go(func() {
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.Mount("cgroup2", "/mnt", "cgroup2", 0, ""); err != nil {
				return err
			}
			dir := "/mnt/gate-find-test"
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			defer os.Remove(dir)
			if none, err = OnCgroup(dir); err != nil {
				return err
			}
			l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupInetIngress, Program: p})
			if err != nil {
				return err
			}
			defer l.Close()
			ids, err = OnCgroup(dir)
			return err
		}()
	})
	if err := <-done; err != nil {
		t.Skipf("no control group to hang a program on: %v", err)
	}
	if len(none) != 0 || !slices.Equal(ids, []uint32{idOf(t, p)}) {
		t.Errorf("%v, then %v; want %d", none, ids, idOf(t, p))
	}
	if _, err := OnCgroup(t.TempDir()); err == nil {
		t.Error("an ordinary directory is a control group")
	}
}
