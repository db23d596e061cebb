//go:build !linux

package bpf

import (
	"context"
	"errors"
	"runtime"

	"github.com/org/ebpf-bench-gate/bench"
)

var errNotLinux = errors.New("eBPF programs are measured on Linux only, and this is " + runtime.GOOS + "; gate compare judges saved runs here")

// Testbed fails outside Linux.
func Testbed() (bench.Testbed, error) { return bench.Testbed{}, errNotLinux }

// Warnings are none outside Linux.
func Warnings() []string { return nil }

// Doctor has one check outside Linux, and that is missing.
func Doctor(context.Context) []Check {
	return []Check{{
		Group: "measures", Name: "Linux", State: CheckMissing,
		Detail: "this is " + runtime.GOOS + ", and eBPF programs are measured on Linux only",
		Hint:   "run gate in a Linux virtual machine or in CI; gate compare judges saved runs here",
	}}
}

// LockHost fails outside Linux.
func LockHost(context.Context, func(owner string)) (release func(), err error) {
	return nil, errNotLinux
}
