//go:build linux

package programs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/netns"
)

// Programs of other processes are found by who holds them ([Holdings]), by their
// pins ([Pinned]), by where they hang ([OnInterfaces], [OnCgroup]), or by when they
// came ([LoadedAfter]). All of it needs root, or CAP_SYS_ADMIN.

// Describe says what the programs of the ids are, in their order. Those that are
// gone are left out.
func Describe(ids []uint32) ([]Info, error) {
	all := make([]Info, 0, len(ids))
	info := new(progInfo)
	for _, id := range ids {
		p, err := describeProgram(id, info)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, explainIDs(err)
		}
		all = append(all, p)
	}
	return all, nil
}

func describeProgram(id uint32, info *progInfo) (Info, error) {
	fd, err := programFD(id)
	if err != nil {
		return Info{}, err
	}
	defer unix.Close(fd)
	if err := info.read(fd); err != nil {
		return Info{}, fmt.Errorf("program %d: %w", id, err)
	}
	return info.describe(fd), nil
}

// StaticByID returns the static measures that the kernel still tells of a program
// that somebody else has loaded: verified_insns (Linux 5.16), xlated_insns,
// jited_bytes, used_maps and memlock; see [Static].
func StaticByID(id uint32) ([]bench.Result, error) {
	fd, err := programFD(id)
	if err != nil {
		return nil, explainIDs(err)
	}
	defer unix.Close(fd)
	info := new(progInfo)
	if err := info.read(fd); err != nil {
		return nil, fmt.Errorf("program %d: %w", id, err)
	}
	values := map[string]float64{
		bench.VerifiedInsns: float64(info.verified), bench.XlatedInsns: float64(info.xlatedLen / asm.InstructionSize),
		bench.JitedBytes: float64(info.jitedLen), bench.UsedMaps: float64(info.nrMapIDs), bench.Memlock: float64(memlockOf(fd)),
	}
	name := info.describe(fd).Name
	var out []bench.Result
	for _, m := range bench.Measures() {
		if v, ok := values[m.Name]; ok && (v > 0 || m.Name == bench.UsedMaps) {
			out = append(out, bench.Result{Benchmark: name, Program: name, Measure: m.Name, Kind: bench.Static, Samples: []bench.Sample{{Value: v, Offset: -1}}})
		}
	}
	return out, nil
}

// memlockOf is the memory that a program is charged with, in bytes; 0: not told.
func memlockOf(fd int) uint64 {
	text, err := readSmall("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte("memlock:")); ok {
			n, _ := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return n
		}
	}
	return 0
}

// OffsetByID is where the machine code of a program starts within its 64-byte line, or
// -1.
func OffsetByID(id uint32) int {
	fd, err := programFD(id)
	if err != nil {
		return -1
	}
	defer unix.Close(fd)
	first := new(uint64)
	var pin runtime.Pinner
	pin.Pin(first)
	defer pin.Unpin()
	info := &progInfo{nrKsyms: 1, ksyms: uint64(uintptr(unsafe.Pointer(first)))}
	if info.get(fd) != nil || *first == 0 {
		return -1
	}
	return int(*first & 63)
}

// Last is the id of the youngest program, or 0. Programs that are loaded from
// now on have larger ones.
func Last() (last uint32, err error) {
	for id := uint32(0); ; last = id {
		if id, err = nextProgram(id); err != nil {
			return 0, explainIDs(err)
		}
		if id == 0 {
			return last, nil
		}
	}
}

// LoadedAfter are the programs with an id above the given one, whoever loaded them.
func LoadedAfter(last uint32) ([]uint32, error) {
	var ids []uint32
	for id := last; ; ids = append(ids, id) {
		var err error
		if id, err = nextProgram(id); err != nil {
			return nil, explainIDs(err)
		}
		if id == 0 {
			return ids, nil
		}
	}
}

// Holdings are the programs that the processes hold, and how many descriptors of
// eBPF objects and perf events they have: a number that grows while they attach.
func Holdings(pids ...int) (programs []uint32, descriptors int) {
	held := make(map[uint32][]Holder)
	left := maxDescriptors
	for _, pid := range pids {
		if left = holdsOf(pid, held, left); left < 0 {
			break
		}
		fds, err := entries("/proc/" + strconv.Itoa(pid) + "/fd")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			to := readLink("/proc/" + strconv.Itoa(pid) + "/fd/" + fd)
			if strings.HasPrefix(to, "anon_inode:bpf") || to == "anon_inode:[perf_event]" {
				descriptors++
			}
		}
	}
	for id := range held {
		programs = append(programs, id)
	}
	slices.Sort(programs)
	return programs, descriptors
}

// maxPins is how many files of a bpffs are looked at.
const maxPins = 1 << 14

// Pinned are the programs that are pinned below a directory of a bpffs, or to which
// a pinned link leads. Symbolic links are not followed, nor mounts entered. A
// directory that is not there has none.
func Pinned(dir string) ([]uint32, error) {
	found := make(map[uint32]bool)
	var root, at unix.Stat_t
	if err := unix.Stat(dir, &root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("look for pinned programs: %s: %w", dir, err)
	}
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone since
		case err != nil:
			return err
		}
		if seen++; seen > maxPins {
			return fs.SkipAll
		}
		if d.IsDir() && unix.Lstat(path, &at) == nil && at.Dev != root.Dev {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if id, ok := pinned(path); ok {
			found[id] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for pinned programs: %w", err)
	}
	return sorted(found), nil
}

func sorted(set map[uint32]bool) []uint32 {
	ids := make([]uint32, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// pinAttr is the part of union bpf_attr of BPF_OBJ_GET.
type pinAttr struct {
	path      uint64
	fd, flags uint32
}

// pinned is the program of a pin, or of the link that is pinned.
func pinned(path string) (id uint32, ok bool) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return 0, false
	}
	var pin runtime.Pinner
	pin.Pin(name)
	defer pin.Unpin()
	attr := pinAttr{path: uint64(uintptr(unsafe.Pointer(name)))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return 0, false
	}
	defer unix.Close(int(fd))
	return programIn("/proc/self/fdinfo/" + strconv.Itoa(int(fd)))
}

// OnInterfaces are the programs of XDP and tc (clsact and tcx) on the interfaces of
// a network namespace (nil: the caller's), or on the one with the name. What a link
// of libxdp has dispatched is not seen: it hangs on the dispatcher.
func OnInterfaces(ns *os.File, name string) ([]uint32, error) {
	found := make(map[uint32]bool)
	look := func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list network interfaces: %w", err)
		}
		there := false
		for _, l := range links {
			if name == "" || l.Attrs().Name == name {
				there = true
				onInterface(l, found)
			}
		}
		if name != "" && !there {
			return fmt.Errorf("there is no network interface %q", name)
		}
		return nil
	}
	if ns == nil {
		host, err := netns.Current()
		if err != nil {
			return nil, err
		}
		defer host.Close()
		ns = host
	}
	if err := netns.Do(ns, look); err != nil {
		return nil, err
	}
	return sorted(found), nil
}

func onInterface(l netlink.Link, found map[uint32]bool) {
	if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached && xdp.ProgId != 0 {
		found[xdp.ProgId] = true
	}
	// A kernel without one of them has no programs there.
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		filters, err := netlink.FilterList(l, parent)
		if err != nil {
			continue
		}
		for _, f := range filters {
			if b, ok := f.(*netlink.BpfFilter); ok && b.Id > 0 {
				found[uint32(b.Id)] = true
			}
		}
	}
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress, ebpf.AttachNetkitPrimary, ebpf.AttachNetkitPeer} {
		query(link.QueryOptions{Target: l.Attrs().Index, Attach: at}, found)
	}
}

// ClearInterfaces takes the programs of XDP and tc off all interfaces of a network
// namespace: those that were attached without a link, and so outlive whoever did it.
func ClearInterfaces(ns *os.File) error {
	return netns.Do(ns, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list network interfaces: %w", err)
		}
		var errs []error
		for _, l := range links {
			if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
				for _, mode := range []int{unix.XDP_FLAGS_SKB_MODE, unix.XDP_FLAGS_DRV_MODE} {
					if err := netlink.LinkSetXdpFdWithFlags(l, -1, mode); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
						errs = append(errs, fmt.Errorf("take XDP off %s: %w", l.Attrs().Name, err))
					}
				}
			}
			clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_CLSACT, Handle: netlink.MakeHandle(0xffff, 0),
			}}
			// Most have none, and are told so in several ways.
			_ = netlink.QdiscDel(clsact)
		}
		return errors.Join(errs...)
	})
}

func query(o link.QueryOptions, found map[uint32]bool) (ok bool) {
	r, err := link.QueryPrograms(o)
	if err != nil {
		return false
	}
	for _, p := range r.Programs {
		found[uint32(p.ID)] = true
	}
	return true
}

// cgroupAttach are the places of a control group.
var cgroupAttach = []ebpf.AttachType{
	ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetSockCreate, ebpf.AttachCgroupInetSockRelease,
	ebpf.AttachCGroupSockOps, ebpf.AttachCGroupDevice, ebpf.AttachCGroupInet4Bind, ebpf.AttachCGroupInet6Bind,
	ebpf.AttachCGroupInet4PostBind, ebpf.AttachCGroupInet6PostBind, ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect,
	ebpf.AttachCGroupUDP4Sendmsg, ebpf.AttachCGroupUDP6Sendmsg, ebpf.AttachCGroupUDP4Recvmsg, ebpf.AttachCGroupUDP6Recvmsg,
	ebpf.AttachCgroupInet4GetPeername, ebpf.AttachCgroupInet6GetPeername, ebpf.AttachCgroupInet4GetSockname, ebpf.AttachCgroupInet6GetSockname,
	ebpf.AttachCGroupSysctl, ebpf.AttachCGroupGetsockopt, ebpf.AttachCGroupSetsockopt,
}

// OnCgroup are the programs on a control group of version 2, without those that its
// ancestors have.
func OnCgroup(path string) ([]uint32, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("look for programs of a control group: %w", err)
	}
	defer dir.Close()
	found, known := make(map[uint32]bool), false
	for _, at := range cgroupAttach {
		known = query(link.QueryOptions{Target: int(dir.Fd()), Attach: at}, found) || known
	}
	if !known {
		return nil, fmt.Errorf("%s is no control group of version 2, or this kernel has no programs on them", path)
	}
	return sorted(found), nil
}
