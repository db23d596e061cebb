//go:build linux

// Package netns makes network namespaces that have no name, and threads that end
// with all that was done to them. A namespace lives as long as a file descriptor,
// a thread or a socket holds it, and so no longer than the process, however that
// ends.
//
// It knows what no other package of the project does: how Go's threads and the
// kernel's fit together. It measures nothing.
package netns

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// New makes a namespace whose loopback interface is up. It needs CAP_SYS_ADMIN.
func New() (*os.File, error) {
	var ns *os.File
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w (needs root or CAP_SYS_ADMIN)", err)
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("find lo in the new namespace: %w", err)
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return fmt.Errorf("bring up lo: %w (needs CAP_NET_ADMIN)", err)
		}
		ns, err = Current()
		return err
	})
	return ns, err
}

// Current opens the namespace of the calling thread.
func Current() (*os.File, error) {
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open a network namespace: %w", err)
	}
	return ns, nil
}

// Enter puts the calling thread, which must be locked, into a namespace.
func Enter(ns *os.File) error {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter a network namespace: %w (needs root or CAP_SYS_ADMIN)", err)
	}
	return nil
}

// Do runs f in a namespace, on a thread of its own.
func Do(ns *os.File, f func() error) error {
	return onThread(func() error {
		if err := Enter(ns); err != nil {
			return err
		}
		return f()
	})
}

func onThread(f func() error) error {
	done := make(chan error, 1)
	Go(func() { done <- f() })
	return <-done
}
