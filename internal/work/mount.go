//go:build linux

package work

import (
	"os"

	"golang.org/x/sys/unix"
)

// MountCgroups has control groups of version 2 in the action's container, below
// which programs of such hang: the Docker engine mounts none where the host has
// version 1, and else one that cannot be written. The mount ends with the container's
// mount namespace: only who has started a container may ask for it, since a host can look
// like one (a machine made of an image has its /.dockerenv). What cannot be mounted (it
// takes CAP_SYS_ADMIN) is told by the program that needs it, if there is one.
func MountCgroups() {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const own = "/tmp/cgroup2"
	if at, err := cgroupMount(); err == nil {
		_ = unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
	} else if os.Mkdir(own, 0o755) == nil {
		_ = unix.Mount("cgroup2", own, "cgroup2", flags, "")
	}
}
