// Package bench is the waist of ebpf-bench-gate: the nouns that the privileged
// half (compile, load, measure) hands to the pure half (store, compare, judge,
// report).
//
// The flow, in order:
//
//  1. [Program] and [Benchmark] say what is to be measured. Package
//     internal/config fills them from ebpf-bench.yml.
//  2. Package bpf loads the programs and drives the benchmarks. Each [Round] of
//     a benchmark is one fresh load of each side, and gives one [Sample] a
//     side and [Measure].
//  3. The samples of one revision on one [Testbed] make a [Run], which is
//     written as JSON by [Encode] and read back by [Decode].
//  4. Package gate judges runs. It sees nothing but runs, so that every
//     verdict can be recomputed from saved files, on any operating system.
//
// The package knows nothing of kernels, statistics or terminals, and imports
// only the standard library.
package bench
