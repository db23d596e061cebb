package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"slices"
	"sort"
	"strconv"
)

// maxPerfMap is how much of a perf map is read, in bytes, and maxPerfEntries how many of its
// functions. Big Java programs write some megabytes.
const (
	maxPerfMap     = 64 << 20
	maxPerfEntries = 1 << 20
)

// A perfMap names code that a process made itself, as the process wrote it down.
// Format: tools/perf/Documentation/jit-interface.txt in Linux.
type perfMap []perfEntry

type perfEntry struct {
	start, size uint64
	name        string
}

// parsePerfMap reads lines "START SIZE NAME", the numbers in hex. The process may be writing at
// this moment, or write nonsense: lines that are none are counted and left out.
func parsePerfMap(r io.Reader) (entries perfMap, bad int, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxPerfMap))
	lines.Buffer(nil, 256<<10)
	for lines.Scan() {
		if len(entries) == maxPerfEntries {
			bad++
			continue
		}
		start, rest, _ := bytes.Cut(bytes.TrimSpace(lines.Bytes()), []byte(" "))
		size, name, _ := bytes.Cut(rest, []byte(" "))
		e := perfEntry{name: clean(string(name))}
		var errs [2]error
		e.start, errs[0] = strconv.ParseUint(string(bytes.TrimPrefix(start, []byte("0x"))), 16, 64)
		e.size, errs[1] = strconv.ParseUint(string(bytes.TrimPrefix(size, []byte("0x"))), 16, 64)
		if errs[0] != nil || errs[1] != nil || e.name == "" || e.start+e.size < e.start {
			bad++
			continue
		}
		entries = append(entries, e)
	}
	// A line that is too long ends the reading; what stood before it is good.
	if err := lines.Err(); err != nil && len(entries) == 0 {
		return nil, bad, err
	}
	return entries.sorted(), bad, nil
}

// sorted orders by address. Of two functions at one address the one that was written later is
// there now: JITs put new code where old code was.
func (p perfMap) sorted() perfMap {
	slices.SortStableFunc(p, func(a, b perfEntry) int { return cmp.Compare(a.start, b.start) })
	kept := p[:0]
	for _, e := range p {
		if n := len(kept); n > 0 && kept[n-1].start == e.start {
			kept[n-1] = e
			continue
		}
		kept = append(kept, e)
	}
	return slices.Clip(kept)
}

func (p perfMap) frame(addr uint64) (Frame, bool) {
	i := sort.Search(len(p), func(i int) bool { return p[i].start > addr }) - 1
	if i < 0 || addr-p[i].start >= p[i].size {
		return Frame{}, false
	}
	return Frame{Function: p[i].name, Module: "[jit]", Offset: addr - p[i].start, Kind: KindUser}, true
}
