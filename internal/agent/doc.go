//go:build linux

// Package agent runs the programs' own user space: agents that load, attach and
// read eBPF programs themselves, and loaders that load them and may leave.
//
// The flow, in order:
//
//  1. [Start] runs a command under a supervisor, a process of gate's own binary
//     that is the new parent of whatever the command leaves behind ([Supervise]).
//     Both are in a mount namespace with a bpffs of their own, and in a network
//     namespace that the caller gives.
//  2. [Agent.Ready] waits until the programs that are expected are in the kernel,
//     and stay so; it finds them by the descriptors of the agent's processes, by
//     their pins, and by what hangs on the interfaces of the namespace.
//  3. The caller counts what they cost (package bpf), while something is at work.
//  4. [Agent.Stop] asks all processes to end, and kills those that do not.
//
// The package counts nothing, knows neither base nor head, and no config file.
// Whatever a command does (daemons, sessions, signals that it ignores), nothing of
// it outlives Stop, or gate: the supervisor notices that gate is gone by the end of
// a pipe, and kills everything.
//
// Note: a process namespace would do that without a supervisor, but agents that
// look at themselves by getpid(2), or at others in /proc, would see other numbers
// than their eBPF programs do.
package agent
