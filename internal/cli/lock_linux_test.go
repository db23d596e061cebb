package cli

import (
	"context"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bpf"
)

// told is closed by the first write.
type told chan struct{}

func (t told) Write(p []byte) (int, error) {
	close(t)
	return len(p), nil
}

// The time that a report tells is not that of another gate.
func TestWaitingForTheLockIsTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	release, err := bpf.LockHost(ctx, nil)
	if err != nil {
		t.Skip(err) // the host's, which a gate of another test may hold
	}
	const pause = 20 * time.Millisecond
	waits := make(told)
	go func() {
		<-waits
		time.Sleep(pause)
		release()
	}()
	release2, waited, err := Command{Stderr: waits}.lockHost(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	release2()
	if waited < pause {
		t.Errorf("waited %v, at least %v were slept", waited, pause)
	}
}
