//go:build linux

package programs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// An Info says what a program in the kernel is, whoever loaded it.
type Info struct {
	// ID is the kernel's number of the program, which no later one gets: ids
	// count upwards (idr_alloc_cyclic in kernel/bpf/syscall.c).
	ID   uint32
	Type string // as bpftool names it: "xdp", "tracepoint", …
	// Name is the function's name in the program's BTF. Without BTF it is the
	// kernel's own, which stops at 15 characters, and may be empty. It is printable
	// ASCII.
	Name string
	Tag  string // the kernel's hash of the instructions, 16 hex digits
	// Loaded is when, by CLOCK_BOOTTIME.
	Loaded time.Duration
}

// progInfo is struct bpf_prog_info (include/uapi/linux/bpf.h) up to what Linux
// 5.16 added. The kernel fills in as much of it as it knows. cilium/ebpf's
// Program.Info asks six times for more than is read here.
type progInfo struct {
	typ, id              uint32
	tag                  [8]byte
	jitedLen, xlatedLen  uint32
	jited, xlated        uint64
	loadTime             uint64
	uid, nrMapIDs        uint32
	mapIDs               uint64
	name                 [16]byte
	ifindex, gpl         uint32
	netnsDev, netnsIno   uint64
	nrKsyms, nrFuncLens  uint32
	ksyms, funcLens      uint64
	btfID, funcInfoSize  uint32
	funcInfo             uint64
	nrFuncInfo, nrLines  uint32
	lines, jitedLines    uint64
	nrJitedLines         uint32
	lineSize, jLineSize  uint32
	nrTags               uint32
	tags                 uint64
	runTime, runs        uint64
	misses               uint64
	verified, attachBTF  uint32
	attachBTFID, padding uint32
}

// funcInfo is struct bpf_func_info.
type funcInfo struct{ offset, typeID uint32 }

// idAttr is the part of union bpf_attr of the BPF_*_GET_NEXT_ID and
// BPF_*_GET_FD_BY_ID commands.
type idAttr struct{ id, next, flags uint32 }

// infoAttr is that of BPF_OBJ_GET_INFO_BY_FD.
type infoAttr struct {
	fd, size uint32
	info     uint64
}

// nextProgram is the smallest id of a program above the given one, or 0 if there
// is none. It needs CAP_SYS_ADMIN.
func nextProgram(after uint32) (uint32, error) {
	attr := idAttr{id: after}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_GET_NEXT_ID, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	switch errno {
	case 0:
		return attr.next, nil
	case unix.ENOENT:
		return 0, nil
	}
	return 0, fmt.Errorf("list the programs in the kernel: %w", errno)
}

// errGone is that a program is no more.
var errGone = errors.New("the program is no longer loaded")

// programFD opens a program by its id. It needs CAP_SYS_ADMIN. Until the
// descriptor is closed the program stays loaded, so it is not kept for long.
func programFD(id uint32) (int, error) {
	attr := idAttr{id: id}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_GET_FD_BY_ID, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	switch errno {
	case 0:
		return int(fd), nil
	case unix.ENOENT:
		return -1, errGone
	}
	return -1, fmt.Errorf("open program %d: %w", id, errno)
}

// read asks for a program's info. What it held before is gone: counts and
// pointers in it would be requests to the kernel.
func (p *progInfo) read(fd int) error {
	*p = progInfo{}
	return p.get(fd)
}

func (p *progInfo) get(fd int) error {
	// The kernel writes behind Go's back, to an address that must not move.
	var pin runtime.Pinner
	pin.Pin(p)
	defer pin.Unpin()
	attr := infoAttr{fd: uint32(fd), size: uint32(unsafe.Sizeof(*p)), info: uint64(uintptr(unsafe.Pointer(p)))}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return fmt.Errorf("read bpf_prog_info: %w", errno)
	}
	return nil
}

// usage is what the kernel has counted.
func (p *progInfo) usage() Usage { return Usage{p.runTime, p.runs, p.misses} }

// describe tells what the program is that info was read of.
func (p *progInfo) describe(fd int) Info {
	name := unix.ByteSliceToString(p.name[:])
	// The kernel keeps 15 characters, so a shorter name is whole.
	if len(name) == len(p.name)-1 && p.btfID != 0 {
		if long, err := btfName(fd); err == nil && strings.HasPrefix(long, name) {
			name = long
		}
	}
	return Info{
		ID: p.id, Type: TypeName(ebpf.ProgramType(p.typ)), Name: printable(name),
		Tag: hex.EncodeToString(p.tag[:]), Loaded: time.Duration(p.loadTime),
	}
}

// btfName is the name of the program's function in its BTF.
func btfName(fd int) (string, error) {
	first := new(funcInfo)
	var pin runtime.Pinner
	pin.Pin(first)
	defer pin.Unpin()
	p := progInfo{nrFuncInfo: 1, funcInfoSize: uint32(unsafe.Sizeof(*first)), funcInfo: uint64(uintptr(unsafe.Pointer(first)))}
	if err := p.get(fd); err != nil {
		return "", err
	}
	if p.nrFuncInfo == 0 {
		return "", errors.New("no function in its BTF")
	}
	h, err := btf.NewHandleFromID(btf.ID(p.btfID))
	if err != nil {
		return "", err
	}
	defer h.Close()
	spec, err := h.Spec(nil)
	if err != nil {
		return "", err
	}
	t, err := spec.TypeByID(btf.TypeID(first.typeID))
	if err != nil {
		return "", err
	}
	return t.TypeName(), nil
}

// printable replaces all but printable ASCII: what is left acts on no terminal,
// and takes one column a byte. (The kernel takes letters, digits, '_' and '.' for
// its own names, and identifiers for BTF's; processes choose their names freely.)
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
