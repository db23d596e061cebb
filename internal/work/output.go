//go:build linux

package work

import (
	"bytes"
	"sync"

	"github.com/org/ebpf-bench-gate/internal/build"
)

// A head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more bool
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keep := min(len(p), MaxOutput-h.buf.Len())
	h.buf.Write(p[:keep])
	h.more = h.more || keep < len(p)
	return len(p), nil
}

func (h *head) bytes() (text []byte, truncated bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.buf.Bytes()), h.more
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailBytes; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
		t.cut = true
	}
	return len(p), nil
}

// lines are the last n lines, indented under an error; "" where there are none.
func (t *tail) lines(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return build.LastLines(t.buf, t.cut, n)
}
