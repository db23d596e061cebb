//go:build linux

package bpf

import "github.com/org/ebpf-bench-gate/bench"

// Static returns the static measures of a program.
func Static(l *Loaded) ([]bench.Result, error) { return nil, nil }
