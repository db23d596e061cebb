//go:build linux

// Package runner measures a plan: it opens the objects of both sides, loads and
// drives what the plan names, and goes on, look after look, until every
// benchmark is decided or its time is spent.
//
// The flow, in order:
//
//  1. A [Plan] names programs and benchmarks, from a config or, without one,
//     from what the objects hold ([BuiltIn]).
//  2. [Run] loads every program once for its static measures, prepares every
//     benchmark, and measures rounds up to the next look.
//  3. At a look it asks package gate for a verdict, and goes on with the
//     benchmarks that are still open.
//
// What comes out are runs: the samples, and the looks that were taken. The
// runner decides when to stop, never what is a regression.
package runner
