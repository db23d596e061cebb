//go:build linux

package work

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix begins the names of our control groups.
const cgroupPrefix = "ebpf-bench-gate-"

// newCgroup makes a control group below gate's own, in the hierarchy of version 2,
// which is the one that eBPF knows.
//
// It is the one thing of a place that has a name. It is locked as long as its
// process lives; that of a process that was killed is taken away by the jail that
// outlives it for a moment, or else by whoever makes the next one.
func newCgroup() (*os.File, error) {
	parent, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	sweep(parent)
	path := filepath.Join(parent, cgroupPrefix+strings.ToLower(rand.Text()[:10]))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make a control group: %w (needs root and a writable cgroup2)", err)
	}
	dir, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("lock a control group: %w", err)
	}
	return dir, nil
}

// ownCgroup is the directory of the control group that gate is in.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the own control group: %w", err)
	}
	own, found := "", false
	for line := range strings.Lines(string(text)) {
		if own, found = strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			break
		}
	}
	mount, err := cgroupMount()
	if err != nil {
		return "", err
	}
	if !found {
		return "", errors.New("this process is in no control group of version 2")
	}
	// One in a namespace of its own may be mounted at another point than its root.
	if dir := filepath.Join(mount, own); isDir(dir) {
		return dir, nil
	}
	return mount, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// cgroupMount is where the hierarchy of version 2 is mounted: at /sys/fs/cgroup, or
// beside version 1 at /sys/fs/cgroup/unified.
func cgroupMount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control groups: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		where, what, _ := strings.Cut(s.Text(), " - ")
		if f := strings.Fields(where); len(f) > 4 && strings.HasPrefix(what, "cgroup2 ") {
			return f[4], nil
		}
	}
	return "", errors.New("no cgroup2 is mounted: programs of control groups have nothing to hang on (mount -t cgroup2 none /sys/fs/cgroup)")
}

// sweep takes away the control groups whose process is gone.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, path := range left {
		dir, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = removeCgroup(dir)
			continue
		}
		dir.Close()
	}
}

// removeCgroup ends what is left in a control group, and takes it away.
func removeCgroup(dir *os.File) error {
	defer dir.Close()
	_ = os.WriteFile(filepath.Join(dir.Name(), "cgroup.kill"), []byte("1"), 0) // Linux 5.14
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Rmdir(dir.Name())
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY) || time.Now().After(end):
			return fmt.Errorf("remove the control group %s: %w", dir.Name(), err)
		}
	}
}
