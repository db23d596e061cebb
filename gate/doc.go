// Package gate judges: runs in, a report with verdicts out.
//
// The flow, in order:
//
//  1. A [Policy] says what counts as a regression. It comes from the base
//     revision's ebpf-bench.yml, never from the head's.
//  2. [Compare] holds two runs against each other: paired, where they were
//     measured side by side in one session, exact, where a measure has no noise.
//     [CompareHistory] holds one run against a [Baseline] of stored runs.
//  3. A [Threshold] makes a [Boundary] of stored values; a [Waiver] accepts an
//     expected regression for a time. [History] finds where stored runs changed.
//  4. Each row of the resulting [Report] is a [Comparison] with a [Verdict].
//
// Everything here is pure: no clock, no kernel, no file. The same runs and the
// same policy give the same report, on any operating system. A judgement is
// never an error, and nothing unknown ever passes.
package gate
