package bpf

import (
	"context"

	"github.com/org/ebpf-bench-gate/bench"
)

// Testbed describes this host.
func Testbed() (bench.Testbed, error) { return bench.Testbed{}, nil }

// Warnings are short doubts about this host.
func Warnings() []string { return nil }

// Doctor tells what this host can measure.
func Doctor(ctx context.Context) []Check { return nil }
