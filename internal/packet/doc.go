// Package packet makes the packets that programs are measured with: from a
// [Template] of header fields, from a capture, or the built-in set.
//
// A packet is a whole Ethernet frame without its checksum, as BPF_PROG_TEST_RUN
// takes it and as a veth pair carries it. The same template gives the same
// bytes on every host and every day: no clock, no random numbers.
//
// The package sends nothing and knows nothing of programs or of YAML: package
// internal/config reads templates from ebpf-bench.yml, package bpf and the
// command line take the frames.
package packet
