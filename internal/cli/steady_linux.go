package cli

import (
	"bufio"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A steadyWriter gathers what is written, and passes it on a few times a second: soon enough to
// be read as it comes, and rarely enough not to cost more than what it tells of.
type steadyWriter struct {
	mu  sync.Mutex
	w   *bufio.Writer
	end chan struct{}
}

func newSteadyWriter(to io.Writer) *steadyWriter {
	w := &steadyWriter{w: bufio.NewWriterSize(to, 64<<10), end: make(chan struct{})}
	go func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-w.end:
				tick.Stop()
				return
			case <-tick.C:
				w.mu.Lock()
				_ = w.w.Flush() // its error stays, for Close
				w.mu.Unlock()
			}
		}
	}()
	return w
}

func (w *steadyWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

// Close passes the rest on, and tells whether anything was lost.
func (w *steadyWriter) Close() error {
	close(w.end)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Flush()
}

// monotonicEpoch is the time of day when CLOCK_MONOTONIC was 0, as if the clock had never been
// set since.
func monotonicEpoch() time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return time.Time{}
	}
	return time.Now().Round(0).Add(-time.Duration(ts.Nano()))
}
