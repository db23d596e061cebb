//go:build unix

package store

import (
	"os"
	"syscall"
)

// giveLike gives what root made to the owner of the directory that it is in.
// Failing to is no failure: the run is saved.
func giveLike(parent, path string) {
	if uid, gid, ok := ownerOf(os.Stat(parent)); ok {
		_ = os.Lchown(path, uid, gid)
	}
}

// giveLikeRoot gives what root made in a store to the store's owner.
func giveLikeRoot(root *os.Root, name string) {
	if uid, gid, ok := ownerOf(root.Stat(".")); ok {
		_ = root.Lchown(name, uid, gid)
	}
}

func ownerOf(info os.FileInfo, err error) (uid, gid int, ok bool) {
	if err != nil || os.Geteuid() != 0 {
		return 0, 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), st.Uid != 0
}
