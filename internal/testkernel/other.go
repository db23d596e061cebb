//go:build !linux

package testkernel

import (
	"errors"
	"testing"
)

var errNotLinux = errors.New("this is not Linux")

func probeBPF() error     { return errNotLinux }
func probeTestRun() error { return errNotLinux }
func probeStats() error   { return errNotLinux }
func probeBTF() error     { return errNotLinux }
func probeNet() error     { return errNotLinux }
func probeKprobe() error  { return errNotLinux }
func probeFentry() error  { return errNotLinux }
func probePMU() error     { return errNotLinux }

// NoLeaks does nothing outside Linux.
func NoLeaks(testing.TB) {}

// NetNS skips the test outside Linux.
func NetNS(t testing.TB) { t.Helper(); Require(t, Net) }

// Agent fails outside Linux.
func Agent() int { return 1 }
