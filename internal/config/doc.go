// Package config turns ebpf-bench.yml into a [Suite]: what is built, what is
// measured, how it is judged.
//
// The flow, in order:
//
//  1. [Find] looks for the file from a directory upwards; [Load] reads it.
//  2. [Parse] reads YAML into a tree in which aliases are followed, and
//     duplicate keys, merge keys and depth are dealt with once for all.
//  3. Each part of the language reads its branch of the tree: the build, the
//     programs with their map values, the benchmarks with their packets (which
//     package packet synthesises), the policy.
//  4. Every mistake becomes a diagnostic, and reading goes on: [Diagnostics]
//     has them all, and prints them as compilers do.
//
// A config comes from a pull request: it is hostile until checked. Files that
// it names stay inside its directory, and its size, its depth and all that it
// can make grow are bounded.
//
// The package runs nothing, loads nothing, and knows no BTF: values of maps
// become [bench.Value] trees, which only package bpf can turn into bytes.
// docs/config.md describes the language.
package config
