package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// names tell what is at an address: of the kernel a function and an offset in it, of a
// process the file that is mapped there and the offset in it.
type names struct {
	kernel    []symbol // by address
	processes map[uint32][]mapping
}

type symbol struct {
	addr uint64
	name string
}

type mapping struct {
	from, to, offset uint64
	file             string
}

func newNames() *names {
	n := &names{processes: map[uint32][]mapping{}}
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return n
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // address, type, name, [module]
		if len(fields) < 3 || !strings.ContainsAny(fields[1], "tTwW") {
			continue
		}
		if addr, err := strconv.ParseUint(fields[0], 16, 64); err == nil && addr != 0 {
			n.kernel = append(n.kernel, symbol{addr, fields[2]})
		}
	}
	sort.SliceStable(n.kernel, func(i, j int) bool { return n.kernel[i].addr < n.kernel[j].addr })
	return n
}

// Append implements print.Names.
func (n *names) Append(b []byte, pid uint32, addr uint64) []byte {
	if pid == 0 {
		if i := sort.Search(len(n.kernel), func(i int) bool { return n.kernel[i].addr > addr }); i > 0 {
			return fmt.Appendf(b, "%s+0x%x", n.kernel[i-1].name, addr-n.kernel[i-1].addr)
		}
		return fmt.Appendf(b, "0x%x", addr)
	}
	for range 2 {
		for _, m := range n.processes[pid] {
			if m.from <= addr && addr < m.to {
				return fmt.Appendf(b, "%s+0x%x", filepath.Base(m.file), addr-m.from+m.offset)
			}
		}
		n.processes[pid] = mappings(pid) // it may have mapped something meanwhile
	}
	return fmt.Appendf(b, "0x%x", addr)
}

// mappings are the files that a process has mapped; none of one that has ended.
func mappings(pid uint32) (all []mapping) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var m mapping
		var mode, dev string
		var inode uint64
		_, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &m.from, &m.to, &mode, &m.offset, &dev, &inode, &m.file)
		if err == nil && strings.Contains(mode, "x") {
			all = append(all, m)
		}
	}
	return all
}
