package testkernel

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// patience is how long something may take to disappear: the kernel frees network
// namespaces and programs on its own time, and a child that was killed takes a
// moment to go. (A variable, so that the tests of NoLeaks need not wait.)
var patience = 30 * time.Second

// NoLeaks fails the test if at its end there is something that was not there
// when NoLeaks was called: a file descriptor of this process (programs, maps
// and BPF links are told by their ids), a thread in another network namespace,
// and, of the host, a network interface or an XDP program on one, a named network
// namespace, a pin, a mount, a changed bpf_stats switch.
//
// Call it first in a test, so that it looks last, after every other cleanup.
// It never runs Go's collector, which would close what was leaked and hide it.
// Tests that call it cannot be parallel, and those of other processes wait for
// each other, since they share the host.
func NoLeaks(t testing.TB) {
	t.Helper()
	t.Setenv("GATE_TEST_NO_LEAKS", "1") // panics in a parallel test
	unlock, err := lockHost()
	if err != nil {
		t.Fatalf("lock the host: %v", err)
	}
	t.Cleanup(unlock)

	before, err := snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var leaked []string
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			after, err := snapshot()
			if err != nil {
				t.Error(err)
				return
			}
			if leaked = surplus(before, after); len(leaked) == 0 {
				return
			}
			if time.Now().After(end) {
				break
			}
		}
		for _, l := range leaked {
			t.Errorf("left behind: %s", l)
		}
	})
}

var host struct {
	sync.Mutex
	depth int
	file  *os.File
}

// lockHost makes tests of other processes wait. Nested calls of one process share
// the lock.
func lockHost() (unlock func(), err error) {
	host.Lock()
	defer host.Unlock()
	if host.depth == 0 {
		// By user, since one user cannot open the other's file in /tmp.
		name := fmt.Sprintf("gate-testkernel-%d.lock", os.Getuid())
		f, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("flock %s: %w", f.Name(), err)
		}
		host.file = f
	}
	host.depth++
	return func() {
		host.Lock()
		defer host.Unlock()
		if host.depth--; host.depth == 0 {
			_ = host.file.Close()
			host.file = nil
		}
	}, nil
}

// surplus lists what after has more of than before.
func surplus(before, after []string) []string {
	count := make(map[string]int, len(before))
	for _, s := range before {
		count[s]++
	}
	var more []string
	for _, s := range after {
		if count[s]--; count[s] < 0 {
			more = append(more, s)
		}
	}
	slices.Sort(more)
	return more
}

// snapshot describes everything that a test could leave behind, a line a thing.
func snapshot() ([]string, error) {
	all := descriptors("/proc/self")
	for _, part := range []func() ([]string, error){threads, links, listed, mounts} {
		more, err := part()
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// descriptors lists the open files of a process by what they are, not by their
// numbers. Those that Go's runtime opens when it first needs them are left out.
func descriptors(proc string) []string {
	var all []string
	fds, _ := os.ReadDir(proc + "/fd")
	for _, fd := range fds {
		what, err := os.Readlink(proc + "/fd/" + fd.Name())
		if err != nil || what == "anon_inode:[eventpoll]" || what == "anon_inode:[eventfd]" ||
			what == "anon_inode:[pidfd]" || what == "/dev/null" || strings.HasPrefix(what, "/proc/") {
			continue // closed since, or the runtime's, or our own reading
		}
		if strings.HasPrefix(what, "anon_inode:bpf") {
			what += ids(proc + "/fdinfo/" + fd.Name())
		}
		all = append(all, "descriptor "+what)
	}
	return all
}

// ids reads which program, map or link a descriptor holds.
func ids(fdinfo string) string {
	text, _ := os.ReadFile(fdinfo)
	var s strings.Builder
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "prog_id" || key == "map_id" || key == "link_id" || key == "map_type" || key == "prog_type" {
			fmt.Fprintf(&s, " %s %s", key, strings.TrimSpace(value))
		}
	}
	return s.String()
}

// threads lists the network namespaces that threads of this process are in,
// once each: Go makes and keeps threads as it likes.
func threads() ([]string, error) {
	all, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		return nil, err
	}
	var in []string
	for _, task := range all {
		if ns, err := os.Readlink(task); err == nil {
			in = append(in, "thread in "+ns)
		}
	}
	slices.Sort(in)
	return slices.Compact(in), nil
}

// links lists the interfaces of this thread's network namespace and the XDP
// programs on them.
func links() ([]string, error) {
	// Cleanups are run on the test's goroutine, wherever Go puts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	found, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	all := make([]string, 0, len(found))
	for _, l := range found {
		all = append(all, "interface "+l.Attrs().Name)
		if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
			all = append(all, "XDP program "+strconv.Itoa(int(xdp.ProgId))+" on "+l.Attrs().Name)
		}
	}
	return all, nil
}

// listed reads what the host keeps by name.
func listed() ([]string, error) {
	var all []string
	for kind, pattern := range map[string]string{
		"network namespace": "/run/netns/*",
		"pin":               "/sys/fs/bpf/*",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, kind+" "+name)
		}
	}
	if on, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err == nil {
		all = append(all, "bpf_stats_enabled "+strings.TrimSpace(string(on)))
	}
	return all, nil
}

// mounts lists what is mounted where, but for what a container engine mounts and
// gate does not: layers of images and bound network namespaces (those that are
// named are listed by name). The tests of the action run one beside this.
func mounts() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		what, how, _ := strings.Cut(line, " - ")
		f, kind := strings.Fields(what), strings.Fields(how)
		if len(f) > 5 && len(kind) > 0 && kind[0] != "overlay" && kind[0] != "nsfs" {
			all = append(all, "mount on "+f[4]+" "+f[5])
		}
	}
	return all, nil
}
