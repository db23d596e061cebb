package symbol

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Of one process, at most so much of its list of mappings is read: the kernel's own limit is
// 65,530 mappings (vm.max_map_count), which administrators raise.
const (
	maxMapsBytes = 64 << 20
	maxMappings  = 1 << 18
)

// A mapping is executable memory of a process.
type mapping struct {
	start, end uint64
	offset     uint64 // in the file
	path       string // as the process sees it; "" for anonymous memory
	inode      uint64 // 0 where no file is behind it
	object     *object
	told       bool   // and not opened yet
	bias       uint64 // of what was loaded at start without a file's offset: the vDSO
}

// file says whether the mapping is of a file, which may have been deleted.
func (m *mapping) file() bool { return m.inode != 0 && strings.HasPrefix(m.path, "/") }

// parseMaps reads lines as /proc/PID/maps has them and keeps what is executable, by address.
func parseMaps(r io.Reader) ([]mapping, error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxMapsBytes))
	lines.Buffer(nil, 64<<10)
	var maps []mapping
	for n := 1; lines.Scan(); n++ {
		m, executable, err := parseMapping(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if executable && len(maps) < maxMappings {
			maps = append(maps, m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(maps, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	return maps, nil
}

// parseMapping reads one line:
//
//	55d0c4a00000-55d0c4a2a000 r-xp 00002000 fe:01 1234  /usr/bin/true
func parseMapping(line string) (m mapping, executable bool, err error) {
	fields := make([]string, 0, 6)
	rest := line
	for len(fields) < 5 {
		field, after, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
		if field == "" || !ok && len(fields) < 4 {
			return m, false, fmt.Errorf("no mapping: %q", clean(line))
		}
		fields, rest = append(fields, field), after
	}
	from, to, _ := strings.Cut(fields[0], "-")
	for _, number := range []struct {
		text string
		base int
		to   *uint64
	}{{from, 16, &m.start}, {to, 16, &m.end}, {fields[2], 16, &m.offset}, {fields[4], 10, &m.inode}} {
		if *number.to, err = strconv.ParseUint(number.text, number.base, 64); err != nil {
			return m, false, fmt.Errorf("no mapping: %q", clean(line))
		}
	}
	if m.end <= m.start || len(fields[1]) < 4 {
		return m, false, fmt.Errorf("no mapping: %q", clean(line))
	}
	// The kernel writes a newline in a name as \012, and nothing else so.
	m.path = strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n")
	return m, fields[1][2] == 'x', nil
}

// find gives the mapping that holds an address.
func find(maps []mapping, addr uint64) *mapping {
	i := sort.Search(len(maps), func(i int) bool { return maps[i].end > addr })
	if i == len(maps) || addr < maps[i].start {
		return nil
	}
	return &maps[i]
}
