//go:build linux

package programs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/netns"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestFindLoaded(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	last, err := Last()
	if err != nil {
		t.Fatal(err)
	}
	a, b := named(t, "first_of_the_found_programs"), named(t, "second")
	want := []uint32{testkernel.ProgramID(t, a), testkernel.ProgramID(t, b)}
	ids, err := LoadedAfter(last)
	if err != nil || !slices.Contains(ids, want[0]) || !slices.Contains(ids, want[1]) {
		t.Errorf("loaded after %d: %v, %v; want %v", last, ids, err, want)
	}
	gone := testkernel.ProgramID(t, b)
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
	if !slices.Equal(ids, []uint32{testkernel.ProgramID(t, p)}) {
		t.Errorf("pinned: %v, want %d", ids, testkernel.ProgramID(t, p))
	}
	if ids, err := Pinned("/no/such/directory"); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
}

// empty loads a program that passes.
func empty(t testing.TB, typ ebpf.ProgramType) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gate_empty", Type: typ, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// addFilter hangs a program on an interface as `tc filter add … bpf` does.
func addFilter(l netlink.Link, p *ebpf.Program, parent uint32) error {
	index := l.Attrs().Index
	qdisc := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return err
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:          p.FD(), Name: "gate", DirectAction: true,
	})
}

func TestFindOnInterfaces(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	xdp, tcx, filter := empty(t, ebpf.XDP), empty(t, ebpf.SchedCLS), empty(t, ebpf.SchedCLS)
	stop, ready := make(chan struct{}), make(chan error)
	var ns *os.File
	want := []uint32{testkernel.ProgramID(t, xdp), testkernel.ProgramID(t, filter)}
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
				want = append(want, testkernel.ProgramID(t, tcx))
			} else if !errors.Is(err, ebpf.ErrNotSupported) { // Linux 6.6
				return err
			}
			if err = addFilter(b, filter, netlink.HANDLE_MIN_INGRESS); err == nil {
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
	if ids, err := OnInterfaces(ns, "b"); err != nil || !slices.Equal(ids, []uint32{testkernel.ProgramID(t, filter)}) {
		t.Errorf("on b: %v, %v; want %d", ids, err, testkernel.ProgramID(t, filter))
	}
	if _, err := OnInterfaces(ns, "c"); err == nil {
		t.Error("there is an interface c")
	}
	if ids, err := OnInterfaces(nil, "lo"); err != nil || slices.Contains(ids, testkernel.ProgramID(t, xdp)) {
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
	xdp, filter := empty(t, ebpf.XDP), empty(t, ebpf.SchedCLS)
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
			if err := addFilter(l, filter, netlink.HANDLE_MIN_EGRESS); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := OnInterfaces(ns, ""); err != nil || len(ids) != 2 {
		t.Errorf("%v, %v; want %d and %d", ids, err, testkernel.ProgramID(t, xdp), testkernel.ProgramID(t, filter))
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
	root := t.TempDir()
	p := empty(t, ebpf.CGroupSKB)
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
			if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
				return err
			}
			dir := filepath.Join(root, "gate-find-test")
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			defer os.Remove(dir)
			var err error
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
	if len(none) != 0 || !slices.Equal(ids, []uint32{testkernel.ProgramID(t, p)}) {
		t.Errorf("%v, then %v; want %d", none, ids, testkernel.ProgramID(t, p))
	}
	if _, err := OnCgroup(t.TempDir()); err == nil {
		t.Error("an ordinary directory is a control group")
	}
}
