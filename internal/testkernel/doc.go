// Package testkernel lets tests ask the real kernel and host for what they
// need, and checks that they leave nothing behind.
//
// The flow of a kernel test, in order:
//
//  1. [Require] probes the features by using them, once a process, and skips
//     the test with the reason if one is missing.
//  2. [NoLeaks] remembers what exists now, and fails the test if something is
//     there at its end that was not: file descriptors, BPF objects, links,
//     network namespaces, pins, mounts.
//  3. [NetNS] moves the test into a network namespace of its own.
//
// Two environment variables police the skips, so that a broken CI host cannot
// look like a green one:
//
//   - GATE_REQUIRE_KERNEL=1 makes a skip a failure.
//   - GATE_ALLOW_SKIP=kprobe,fentry,pmu names the features which a host may
//     lack all the same, because its kernel or its hypervisor decides.
//
// It is for tests alone, does not measure, and stands in no flow of gate. Of the
// project it imports nothing, so that tests of every room can use it.
package testkernel
