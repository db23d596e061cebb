//go:build linux

package work

import (
	"os"

	"golang.org/x/sys/unix"
)

// MountHooks mounts in the action's container what attached programs hang at on a
// host: tracefs, whose files name the tracepoints, and control groups of version 2.
// The Docker engine mounts neither, or for reading alone. The mounts are the
// container's own and end with it; outside of one nothing is done. What cannot be
// mounted (it takes CAP_SYS_ADMIN) is told by the program that needs it, if there is
// one.
func MountHooks() {
	if _, err := os.Stat("/.dockerenv"); err != nil {
		return
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const tracing, groups = "/sys/kernel/tracing", "/tmp/cgroup2"
	if _, err := os.Stat(tracing + "/events"); err != nil {
		_ = unix.Mount("tracefs", tracing, "tracefs", flags, "")
	}
	if at, err := cgroupMount(); err == nil {
		_ = unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
	} else if os.Mkdir(groups, 0o755) == nil { // the host has version 1
		_ = unix.Mount("cgroup2", groups, "cgroup2", flags, "")
	}
}
