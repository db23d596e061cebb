//go:build linux

package netns

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The main thread outlives its goroutines; nothing may be done to it.
func TestGoIsNeverTheMainThread(t *testing.T) {
	for i := range 2000 {
		tid := make(chan int)
		Go(func() { tid <- unix.Gettid() })
		if got := <-tid; got == unix.Getpid() {
			t.Fatalf("at try %d it was", i)
		}
	}
}
