package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
)

// maxKallsyms is how much of a list of the kernel's symbols is read, in bytes. A distribution's
// kernel with all its modules has about 10 MB.
const maxKallsyms = 256 << 20

// maxFunction is the size beyond which nothing is taken for one function, in bytes: the list
// has starts only, and behind the last function of a range comes something else.
const maxFunction = 1 << 20

// errHidden is what a kernel says to whoever may not see addresses.
var errHidden = errors.New("the kernel hides its addresses (/proc/sys/kernel/kptr_restrict); run as root, or with CAP_SYSLOG")

// kallsyms is the kernel's list of symbols, in little memory: there are some 200,000.
type kallsyms struct {
	symbols []ksym
	names   []byte   // ends at the next symbol's
	modules []string // [0] is the kernel
	module  map[string]uint16
}

type ksym struct {
	addr   uint64
	name   uint32 // in names
	size   uint16 // of the name
	module uint16
	code   bool // of functions; the others are kept for where they begin
}

// parseKallsyms reads lines as /proc/kallsyms has them: address, type, name, and a module in
// brackets. Lines of other shapes are left out.
func parseKallsyms(r io.Reader) (*kallsyms, error) {
	k := &kallsyms{modules: []string{"[kernel]"}, module: map[string]uint16{"": 0}}
	lines := bufio.NewScanner(io.LimitReader(r, maxKallsyms))
	lines.Buffer(nil, 64<<10)
	hidden := false
	for lines.Scan() {
		address, rest, ok := bytes.Cut(lines.Bytes(), []byte(" "))
		if !ok || len(rest) < 3 || rest[1] != ' ' || len(address) > 16 {
			continue
		}
		addr, err := strconv.ParseUint(string(address), 16, 64)
		if err != nil {
			continue
		}
		if addr == 0 {
			hidden = true // or a per-CPU symbol, on kernels that count those from zero
			continue
		}
		name, module, _ := bytes.Cut(rest[2:], []byte("\t"))
		if len(name) == 0 || len(name) > maxName || len(module) > maxName || len(k.names)+len(name) > 1<<31 {
			continue
		}
		number, ok := k.module[string(module)]
		if !ok {
			if len(k.modules) > 1<<15 {
				continue
			}
			number = uint16(len(k.modules))
			k.module[string(module)] = number
			k.modules = append(k.modules, clean(string(module)))
		}
		k.symbols = append(k.symbols, ksym{addr: addr, name: uint32(len(k.names)), size: uint16(len(name)), module: number,
			code: rest[0] == 't' || rest[0] == 'T' || rest[0] == 'w' || rest[0] == 'W'})
		k.names = append(k.names, name...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the kernel's symbols: %w", err)
	}
	if len(k.symbols) == 0 {
		if hidden {
			return nil, errHidden
		}
		return nil, errors.New("read the kernel's symbols: there are none (is CONFIG_KALLSYMS off?)")
	}
	k.symbols = slices.Clip(k.symbols)
	k.names = slices.Clip(k.names)
	slices.SortStableFunc(k.symbols, func(a, b ksym) int { return cmp.Compare(a.addr, b.addr) })
	return k, nil
}

// frame names an address of the kernel or one of its modules.
func (k *kallsyms) frame(addr uint64) (Frame, bool) {
	i := sort.Search(len(k.symbols), func(i int) bool { return k.symbols[i].addr > addr }) - 1
	if i < 0 || addr-k.symbols[i].addr > maxFunction {
		return Frame{}, false
	}
	// Aliases: the first of a kind is the one that the list's other readers show.
	for i > 0 && k.symbols[i-1].addr == k.symbols[i].addr && (k.symbols[i-1].code || !k.symbols[i].code) {
		i--
	}
	s := k.symbols[i]
	if !s.code {
		return Frame{}, false
	}
	f := Frame{Function: clean(string(k.names[s.name : s.name+uint32(s.size)])), Module: k.modules[s.module], Offset: addr - s.addr, Kind: KindKernel}
	if f.Module == "[bpf]" || f.Module == "[__builtin__kprobes]" || f.Module == "[__builtin__ftrace]" {
		f.Module = "[kernel]" // trampolines and dispatchers
	}
	return f, true
}
