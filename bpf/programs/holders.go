//go:build linux

package programs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Holder is a process that keeps a program in the kernel: it has a descriptor
// of it, or of a link to it.
type Holder struct {
	PID int `json:"pid"`
	// Command is the first 15 characters of its name (/proc/PID/comm), made of
	// printable ones. Any process can choose its own.
	Command string `json:"command"`
}

// maxDescriptors is how many descriptors one search looks at: a server with a
// million connections must not hold it up.
const maxDescriptors = 1 << 18

// Holders tells which processes hold which programs, by the program's id. With
// pids it looks at these alone, else at all that /proc shows. It needs the rights
// to look at them: root, or CAP_SYS_PTRACE for processes of others.
//
// A program that only a pin, an interface or a program array keeps is held by
// nobody. Legacy attachments (perf events without a link) hold their program, but
// do not tell which: what loaded it usually keeps its descriptor too. The search
// gives up after [maxDescriptors], which complete tells.
func Holders(pids ...int) (held map[uint32][]Holder, complete bool) {
	all := slices.Clone(pids)
	if len(pids) == 0 {
		found, err := entries("/proc")
		if err != nil {
			return nil, false
		}
		for _, name := range found {
			if pid, err := strconv.Atoi(name); err == nil {
				all = append(all, pid)
			}
		}
	}
	slices.Sort(all)
	held, left := make(map[uint32][]Holder), maxDescriptors
	for _, pid := range slices.Compact(all) {
		left = holdsOf(pid, held, left)
		if left < 0 {
			return held, false
		}
	}
	return held, true
}

// holdsOf adds what a process holds. A process that has ended since holds
// nothing.
func holdsOf(pid int, held map[uint32][]Holder, left int) int {
	dir := "/proc/" + strconv.Itoa(pid)
	fds, err := entries(dir + "/fd")
	if err != nil {
		return left
	}
	command := ""
	for _, fd := range fds {
		if left--; left < 0 {
			break
		}
		// Reading where it points to is a tenth of reading what it is.
		if to := readLink(dir + "/fd/" + fd); !strings.HasPrefix(to, "anon_inode:bpf-prog") && !strings.HasPrefix(to, "anon_inode:bpf_link") {
			continue
		}
		id, ok := programIn(dir + "/fdinfo/" + fd)
		if !ok {
			continue
		}
		if command == "" {
			command = commandOf(pid)
		}
		if h := (Holder{pid, command}); !slices.Contains(held[id], h) {
			held[id] = append(held[id], h)
		}
	}
	return left
}

// entries are the names in a directory, in the kernel's order.
func entries(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// readLink is the beginning of where a link points to, or "".
func readLink(path string) string {
	var buf [32]byte
	n, err := unix.Readlink(path, buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// programIn is the program that the fdinfo of a program or a link names.
func programIn(path string) (id uint32, ok bool) {
	text, err := readSmall(path)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte("prog_id:")); found {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 32)
			return uint32(n), err == nil && n > 0
		}
	}
	return 0, false
}

// commandOf is the name of a process, or of its number where it has ended.
func commandOf(pid int) string {
	text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/comm")
	if name := printable(strings.TrimSuffix(string(text), "\n")); err == nil && name != "" {
		return name
	}
	return "?"
}

// readSmall reads the beginning of a small file of /proc with three system calls.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 1024)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return buf[:n], nil
}
