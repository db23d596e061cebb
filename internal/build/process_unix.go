//go:build unix

package build

import (
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// An owner is the user that a tree's commands run as.
type owner struct {
	uid, gid uint32
	groups   []uint32
	home     string
	name     string
	// switched tells that this is not the user that gate runs as.
	switched bool
}

// ownerOf is the user that a directory's commands run as: gate's own, or, where
// that is root, the directory's owner. Under sudo this is the invoking user in
// his own checkout; and somebody else's code is run with his rights, not ours.
// Only root's own files are built by root: nobody else could write there.
func ownerOf(dir string) owner {
	self := owner{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if self.uid != 0 {
		return self
	}
	info, err := os.Stat(dir)
	if err != nil {
		return self
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 {
		return self
	}
	o := owner{uid: st.Uid, gid: st.Gid, home: os.TempDir(), name: strconv.Itoa(int(st.Uid)), switched: true}
	u, err := user.LookupId(o.name)
	if err != nil { // a container need not know the user of a mounted checkout
		return o
	}
	o.name, o.home = u.Username, u.HomeDir
	if gid, err := strconv.ParseUint(u.Gid, 10, 32); err == nil {
		o.gid = uint32(gid)
	}
	ids, _ := u.GroupIds()
	for _, id := range ids {
		if gid, err := strconv.ParseUint(id, 10, 32); err == nil {
			o.groups = append(o.groups, uint32(gid))
		}
	}
	return o
}

func (o owner) isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if o.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid, Groups: o.groups}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

func killAll(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// give makes the owner the owner of a file that gate made for him.
func (o owner) give(path string) error {
	if !o.switched {
		return nil
	}
	return os.Lchown(path, int(o.uid), int(o.gid))
}

// giveIn is give for a path in a tree, which follows no symlink out of it.
func (o owner) giveIn(root *os.Root, name string) {
	if o.switched {
		// A directory that stays root's makes the build fail and say so.
		_ = root.Lchown(name, int(o.uid), int(o.gid))
	}
}

// mayRead tells whether the owner could read a file by its mode, as far as it
// depends on the file alone.
func (o owner) mayRead(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !o.switched || info.Mode().Perm()&0o004 != 0 || ok && st.Uid == o.uid
}

// tryLock takes the lock of an open file without waiting. It ends with the
// process, however that ends.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
