//go:build linux

package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// A probe is one place of a user-space statically defined tracepoint.
type probe struct {
	provider, name, args string
	pc, semaphore        uint64 // file offsets; a semaphore of 0 is none
}

// Maps of libbpf's usdt.bpf.h, through which a program learns where the arguments
// of its probe are.
const (
	usdtSpecs    = "__bpf_usdt_specs"
	usdtMaxArgs  = 12
	usdtSpecSize = usdtMaxArgs*16 + 16
)

func checkUSDT(h Hook, _ *ebpf.ProgramSpec) error {
	if parts := strings.Split(h.target, ":"); len(parts) != 3 || slices.Contains(parts, "") {
		return errors.New("a USDT probe has a file, a provider and a name")
	}
	return nil
}

// attachUSDT takes "file:provider:name". A probe may be at several places of the
// file, all of which run the program.
func attachUSDT(a attaching) (io.Closer, error) {
	parts := strings.Split(a.target, ":")
	file, err := a.binary(parts[0])
	if err != nil {
		return nil, err
	}
	all, err := usdtProbes(file)
	if err != nil {
		return nil, err
	}
	ex, err := link.OpenExecutable(file)
	if err != nil {
		return nil, err
	}
	var held closers
	for _, p := range all {
		if p.provider != parts[1] || p.name != parts[2] {
			continue
		}
		id := uint32(len(held))
		if m := a.maps[usdtSpecs]; m != nil {
			err = putUSDTSpec(m, id, p.args)
		}
		var l link.Link
		if err == nil {
			l, err = ex.Uprobe("usdt", a.prog, &link.UprobeOptions{Address: p.pc, RefCtrOffset: p.semaphore, Cookie: uint64(id)})
		}
		if err != nil {
			_ = held.Close()
			return nil, err
		}
		held = append(held, l)
	}
	if len(held) == 0 {
		var known []string
		for _, p := range all {
			known = append(known, parts[0]+":"+p.provider+":"+p.name)
		}
		return nil, a.missing(known, "%s has no USDT probe %s:%s", file, parts[1], parts[2])
	}
	return held, nil
}

// usdtProbes reads the notes that sys/sdt.h leaves in a file: section .note.stapsdt,
// see https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
func usdtProbes(file string) ([]probe, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	s := f.Section(".note.stapsdt")
	if s == nil || f.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%s has no USDT probes", file)
	}
	const most = 16 << 20
	if s.Size > most {
		return nil, fmt.Errorf("%s has %d bytes of notes, more than anybody's probes", file, s.Size)
	}
	data, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("read the notes of %s: %w", file, err)
	}
	base := uint64(0)
	if b := f.Section(".stapsdt.base"); b != nil {
		base = b.Addr
	}
	var all []probe
	broken := fmt.Errorf("the notes of %s are damaged", file)
	for len(data) > 0 {
		if len(data) < 12 {
			return nil, broken
		}
		nameLen, descLen := uint64(f.ByteOrder.Uint32(data)), uint64(f.ByteOrder.Uint32(data[4:]))
		kind := f.ByteOrder.Uint32(data[8:])
		end := 12 + align4(nameLen) + align4(descLen)
		if end > uint64(len(data)) {
			return nil, broken
		}
		name, desc := data[12:12+nameLen], data[12+align4(nameLen):][:descLen]
		data = data[end:]
		const stapsdt = 3 // NT_STAPSDT
		if kind != stapsdt || string(name) != "stapsdt\x00" {
			continue
		}
		if len(desc) < 24 {
			return nil, broken
		}
		texts := bytes.SplitN(desc[24:], []byte{0}, 4)
		if len(texts) < 3 {
			return nil, broken
		}
		pc, was, semaphore := f.ByteOrder.Uint64(desc), f.ByteOrder.Uint64(desc[8:]), f.ByteOrder.Uint64(desc[16:])
		p := probe{provider: string(texts[0]), name: string(texts[1]), args: string(texts[2])}
		var ok bool
		// What prelinking moved since the note was written.
		if base != 0 {
			pc += base - was
		}
		if p.pc, ok = fileOffset(f, pc); !ok {
			return nil, broken
		}
		if semaphore != 0 {
			if base != 0 {
				semaphore += base - was
			}
			if p.semaphore, ok = fileOffset(f, semaphore); !ok {
				return nil, broken
			}
		}
		all = append(all, p)
	}
	return all, nil
}

func align4(n uint64) uint64 { return (n + 3) &^ 3 }

// fileOffset is where an address stands in the file.
func fileOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// putUSDTSpec writes where the arguments are, as struct __bpf_usdt_spec.
func putUSDTSpec(m *ebpf.Map, id uint32, args string) error {
	if int(m.ValueSize()) < usdtSpecSize {
		return fmt.Errorf("%s has entries of %d bytes: an usdt.bpf.h that gate does not know", usdtSpecs, m.ValueSize())
	}
	if id >= m.MaxEntries() {
		return fmt.Errorf("the probe is at more than %d places", m.MaxEntries())
	}
	spec := make([]byte, m.ValueSize())
	fields := splitArgs(args)
	if len(fields) > usdtMaxArgs {
		return fmt.Errorf("the probe has %d arguments, more than %d", len(fields), usdtMaxArgs)
	}
	for i, text := range fields {
		arg, err := parseUSDTArg(runtime.GOARCH, text)
		if err != nil {
			return err
		}
		at := spec[16*i:]
		binary.NativeEndian.PutUint64(at, uint64(arg.value))
		binary.NativeEndian.PutUint32(at[8:], arg.kind)
		binary.NativeEndian.PutUint16(at[12:], uint16(arg.reg))
		if arg.size < 0 {
			at[14], arg.size = 1, -arg.size
		}
		at[15] = byte(64 - 8*arg.size)
	}
	binary.NativeEndian.PutUint16(spec[16*usdtMaxArgs+8:], uint16(len(fields)))
	return m.Put(id, spec)
}

// splitArgs parts "8@%rdi -4@16(%rbp)" at its spaces, but not those of "[sp, 16]".
func splitArgs(args string) []string {
	var out []string
	for _, f := range strings.Fields(args) {
		if n := len(out); n > 0 && strings.Contains(out[n-1], "[") && !strings.Contains(out[n-1], "]") {
			out[n-1] += f
			continue
		}
		out = append(out, f)
	}
	return out
}

// A usdtArg is where an argument is, as in struct __bpf_usdt_arg_spec.
type usdtArg struct {
	kind  uint32 // enum __bpf_usdt_arg_type
	value int64  // the constant, or what is added to the register
	reg   int    // offset in struct pt_regs
	size  int    // bytes; negative: signed
}

const (
	usdtConst = iota
	usdtReg
	usdtDeref
)

var usdtForms = map[string]struct{ reg, deref, constant *regexp.Regexp }{
	"amd64": {
		regexp.MustCompile(`^%([a-z0-9]+)$`),
		regexp.MustCompile(`^(-?[0-9]*)\(%([a-z0-9]+)\)$`),
		regexp.MustCompile(`^\$(-?[0-9]+)$`),
	},
	"arm64": {
		regexp.MustCompile(`^([xw][0-9]+|sp)$`),
		regexp.MustCompile(`^\[([a-z0-9]+)(?:,(-?[0-9]+))?\]$`),
		regexp.MustCompile(`^(-?[0-9]+)$`),
	},
}

// parseUSDTArg reads an argument such as "-4@%edi", "8@-16(%rbp)" or "4@$5".
func parseUSDTArg(arch, text string) (usdtArg, error) {
	forms, ok := usdtForms[arch]
	if !ok {
		return usdtArg{}, fmt.Errorf("arguments of USDT probes are not read on %s", arch)
	}
	fail := fmt.Errorf("the probe's argument %q is of a form that gate does not read", text)
	size, where, _ := strings.Cut(text, "@")
	var a usdtArg
	var err error
	if a.size, err = strconv.Atoi(size); err != nil || (a.size != 1 && a.size != 2 && a.size != 4 && a.size != 8 && a.size != -1 && a.size != -2 && a.size != -4 && a.size != -8) {
		return usdtArg{}, fail
	}
	register := ""
	if m := forms.constant.FindStringSubmatch(where); m != nil {
		a.kind = usdtConst
		a.value, err = strconv.ParseInt(m[1], 10, 64)
	} else if m := forms.reg.FindStringSubmatch(where); m != nil {
		a.kind, register = usdtReg, m[1]
	} else if m := forms.deref.FindStringSubmatch(where); m != nil {
		a.kind, register = usdtDeref, m[2]
		offset := m[1]
		if arch == "arm64" {
			register, offset = m[1], m[2]
		}
		if offset != "" && offset != "-" {
			a.value, err = strconv.ParseInt(offset, 10, 64)
		}
	} else {
		return usdtArg{}, fail
	}
	if err == nil && register != "" {
		a.reg, err = ptRegs(arch, register)
	}
	if err != nil {
		return usdtArg{}, errors.Join(fail, err)
	}
	return a, nil
}

// ptRegs is the offset of a register in struct pt_regs (on arm64, struct
// user_pt_regs).
func ptRegs(arch, register string) (int, error) {
	if arch == "arm64" {
		if register == "sp" {
			return 31 * 8, nil
		}
		if n, err := strconv.Atoi(register[1:]); err == nil && n <= 30 {
			return n * 8, nil
		}
		return 0, fmt.Errorf("unknown register %s", register)
	}
	for i, names := range []string{
		"r15 r15d r15w r15b", "r14 r14d r14w r14b", "r13 r13d r13w r13b", "r12 r12d r12w r12b",
		"rbp ebp bp bpl", "rbx ebx bx bl", "r11 r11d r11w r11b", "r10 r10d r10w r10b",
		"r9 r9d r9w r9b", "r8 r8d r8w r8b", "rax eax ax al", "rcx ecx cx cl",
		"rdx edx dx dl", "rsi esi si sil", "rdi edi di dil", "", "rip", "", "", "rsp esp sp spl",
	} {
		for _, n := range strings.Fields(names) {
			if n == register {
				return i * 8, nil
			}
		}
	}
	return 0, fmt.Errorf("unknown register %s", register)
}
