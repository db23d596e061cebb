//go:build linux

package work

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/internal/netns"
)

// listenWithin is how long a server may take until it listens.
const listenWithin = 10 * time.Second

// Listening waits until somebody listens on a TCP port of the namespace. It looks,
// and makes no connection: a server that ends after its first one would be gone.
func (p *Place) Listening(ctx context.Context, namespace string, port int) error {
	ns, err := p.Namespace(namespace)
	if err != nil {
		return err
	}
	for end := time.Now().Add(listenWithin); ; {
		found := false
		err := netns.Do(ns, func() (err error) {
			found, err = listens(port)
			return err
		})
		switch {
		case err != nil || found:
			return err
		case time.Now().After(end):
			return fmt.Errorf("nobody listens on port %d after %v", port, listenWithin)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// listens looks into the tables of the calling thread's namespace.
func listens(port int) (bool, error) {
	const listen = "0A" // TCP_LISTEN
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/thread-self/net/" + table)
		if errors.Is(err, fs.ErrNotExist) {
			continue // without IPv6
		}
		if err != nil {
			return false, err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			f := strings.Fields(s.Text())
			if len(f) < 4 || f[3] != listen {
				continue
			}
			_, digits, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(digits, 16, 16); err == nil && int(n) == port {
				return true, nil
			}
		}
	}
	return false, nil
}
