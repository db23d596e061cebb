//go:build linux

package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	print "github.com/org/ebpf-bench-gate/examples/profiler/v3"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestSampling samples this process while it works, and finds it in what is shown.
func TestSampling(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.Require(t, testkernel.Clang)
	object := filepath.Join(t.TempDir(), "profiler.bpf.o")
	include := "/usr/include/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"
	if out, err := exec.Command("clang", "-O2", "-g", "-target", "bpf", "-I"+include, "-c", "../profiler.bpf.c", "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out shown
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	done := make(chan error, 1)
	go func() { done <- run(ctx, log, print.New(&out, newNames()), object, 997, uint32(os.Getpid())) }()
	found := func(text string) bool { // the first samples may be of the kernel alone
		return strings.Contains(text, "agent.test pid ") && strings.Contains(text, "\tagent.test+0x")
	}
	for ctx.Err() == nil && !found(out.String()) {
		runtime.Gosched() // work, for the timer to find
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !found(text) {
		t.Errorf("%.2000s", text)
	}
}

// shown is what was written so far.
type shown struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
