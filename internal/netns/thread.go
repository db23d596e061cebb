//go:build linux

package netns

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Go runs f on a goroutine that is locked to its thread and never
// unlocked: whatever f does to the thread (namespace, affinity, priority) ends
// with it when f returns.
//
// Go cannot end the main thread: a locked goroutine that happens to run on it
// leaves it parked for good (mexit in runtime/proc.go), and the namespace with
// it. So the main thread is kept busy while another takes its place.
func Go(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		taken := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(taken)
			f()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}
