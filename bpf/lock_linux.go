package bpf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting run looks again. (A blocking flock could not be
// cancelled.)
const lockPoll = 100 * time.Millisecond

// maxOwner is the length in bytes to which an owner's own description is read.
const maxOwner = 200

// LockHost waits until no other run measures on this host, and keeps others
// waiting until release is called; calling it again does nothing. Two runs at
// once would measure each other, and the kernel-wide statistics switch of one
// would slow every test run of the other by 70 ns.
//
// If it has to wait it calls waiting once, with what the owner says of itself
// ("pid 4711: gate run --base main", or "another run" where that cannot be told),
// and goes on until ctx ends.
//
// The lock is flock(2) on a file, so the kernel gives it up however its owner
// ends, kill -9 included; the file itself stays, since removing it would let two
// runs lock two files of one name. For root that is /run/ebpf-bench-gate.lock,
// in a directory that nobody else can write. A user who has capabilities without
// being root has a lock in the temporary directory, by user, that does not
// exclude root's. A container shares the lock with the host where it shares
// /run/ebpf-bench-gate.lock (docker run -v /run:/run).
//
// Note: an abstract unix socket would be released as well, but its names belong
// to the network namespace, which containers do not share, and any user of the
// host could take the name and hold up root's runs for ever.
func LockHost(ctx context.Context, waiting func(owner string)) (release func(), err error) {
	return lockFile(ctx, lockPath(), waiting)
}

// lockPath is where the lock of this user is.
func lockPath() string {
	uid := os.Geteuid()
	if st, err := os.Stat("/run"); uid == 0 && err == nil && st.IsDir() && unix.Access("/run", unix.W_OK) == nil {
		return "/run/ebpf-bench-gate.lock"
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("ebpf-bench-gate-%d.lock", uid))
}

func lockFile(ctx context.Context, path string, waiting func(owner string)) (func(), error) {
	f, err := openLock(path)
	if err != nil {
		return nil, fmt.Errorf("lock this host against a second run: %w", err)
	}
	told := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock this host against a second run: flock %s: %w", path, err)
		}
		if !told && waiting != nil && errors.Is(err, unix.EWOULDBLOCK) {
			waiting(lockOwner(f))
			told = true
		}
		select {
		case <-ctx.Done():
			owner := lockOwner(f)
			f.Close()
			return nil, fmt.Errorf("waiting for %s, which measures on this host: %w", owner, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
	// What the file says is a courtesy to whoever waits; the lock holds without.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(describeSelf()), 0)
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			_ = f.Truncate(0)
			f.Close()
		})
	}, nil
}

// openLock opens the lock's file, and trusts no file that somebody else may have
// put there: in a directory that everybody writes, a link would have root
// truncate a file of the attacker's choice, and a file of another user's could be
// held locked by that user for ever.
func openLock(path string) (*os.File, error) {
	// O_NONBLOCK: a FIFO in its place must not hang the run.
	flags := unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Open(path, flags, 0o600)
	if err != nil {
		err = &fs.PathError{Op: "open", Path: path, Err: err}
		if errors.Is(err, unix.ELOOP) {
			return nil, fmt.Errorf("%w: it is a symbolic link, which gate did not make; remove it", err)
		}
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	what := ""
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		what = "not a regular file"
	case int(st.Uid) != os.Geteuid():
		what = fmt.Sprintf("owned by user %d", st.Uid)
	case st.Nlink != 1:
		what = "a file of another name too"
	case st.Mode&0o077 != 0:
		what = fmt.Sprintf("open to other users (mode %03o)", st.Mode&0o777)
	}
	if what != "" {
		f.Close()
		return nil, fmt.Errorf("%s is %s, which gate did not make; remove it", path, what)
	}
	return f, nil
}

// describeSelf is this process for whoever waits.
func describeSelf() string {
	args := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	s := fmt.Sprintf("pid %d: %s", os.Getpid(), strings.Join(args, " "))
	return s[:min(len(s), maxOwner)]
}

// lockOwner is what the owner wrote, fit for a terminal.
func lockOwner(f *os.File) string {
	buf := make([]byte, maxOwner)
	n, _ := f.ReadAt(buf, 0)
	s := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(buf[:n]), ""))
	if s = strings.TrimSpace(s); s == "" {
		return "another run"
	}
	return s
}
