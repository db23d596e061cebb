//go:build linux

package bpf

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The main thread outlives its goroutines; nothing may be done to it.
func TestGoThreadIsNeverTheMainThread(t *testing.T) {
	for i := range 2000 {
		tid := make(chan int)
		goThread(func() { tid <- unix.Gettid() })
		if got := <-tid; got == unix.Getpid() {
			t.Fatalf("at try %d it was", i)
		}
	}
}
