package testkernel

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NetNS moves the test's goroutine into a new network namespace with its
// loopback up, and back when the test ends. The goroutine is locked to its
// thread meanwhile; goroutines that the test starts are outside.
func NetNS(t testing.TB) {
	t.Helper()
	Require(t, Net)

	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		t.Fatalf("open the network namespace: %v", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		_ = unix.Close(home)
		runtime.UnlockOSThread()
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		err := unix.Setns(home, unix.CLONE_NEWNET)
		_ = unix.Close(home)
		if err != nil {
			// The thread stays locked, so that Go ends it with the goroutine
			// and no other test is run in the wrong namespace.
			t.Errorf("return to the network namespace: %v", err)
			return
		}
		runtime.UnlockOSThread()
	})

	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatalf("find lo: %v", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatalf("set lo up: %v", err)
	}
}
