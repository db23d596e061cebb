// Package bpf is everything that touches the kernel: opening objects, loading
// programs, driving them and reading what they cost. It fills [bench.Result]s
// and judges nothing.
//
// The flow, in order:
//
//  1. [OpenObject] reads an ELF object; [Object.Load] loads one program of it,
//     by itself, with only the maps that it uses, and the constants, sizes and
//     contents that the config gives them.
//  2. [Static] reads what the verifier and the JIT said of a loaded program.
//  3. A [Session] is a locked thread in a network namespace of its own, pinned
//     to a CPU. [Session.Micro], [Session.Macro] and [Session.Attached] prepare a
//     benchmark on it, and each Round of that is one fresh load of every side.
//  4. [Micro.Insns] counts the instructions that a benchmark executes, with a
//     counter in every basic block.
//  5. [Micro.Hotspots] samples where programs spend their time, with the sampler of
//     package bpf/profiler, which knows nothing of them.
//  6. [Testbed], [Warnings] and [Doctor] describe the machine: what numbers
//     depend on, what makes them noisy, and what can be measured. [LockHost]
//     keeps a second run waiting.
//
// Below it, bpf/programs finds, describes and counts the runs of programs that are in the
// kernel, whoever loaded them; bpf/profiler samples anything that runs; bpf/perfevent is
// what both kinds of sampling hang on.
//
// Nothing that it creates has a name on the host: namespaces are anonymous,
// programs and maps are never pinned, links and the statistics switch are held
// by file descriptors. What a killed process leaves behind is therefore
// nothing.
//
// Linux 5.8 is the minimum; what needs a later kernel says so. See
// docs/measuring.md for the facts that the package rests on.
package bpf
