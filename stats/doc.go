// Package stats is the arithmetic of judging: numbers in, numbers out.
//
// It stands behind package gate, which knows what the numbers mean. In the order
// in which a judgement uses them:
//
//  1. [Median], [Quantile], [TrimmedMean], [Mean] and [Variance] describe one
//     sample, [Tukey] counts its outliers.
//  2. [SignedRank] (paired) and [MannWhitney] (two samples) are the rank tests,
//     exact also with ties. [PairedT] and [WelchT] are their classical
//     counterparts, [TrimmedT] and [YuenT] those of trimmed means; [Bootstrap] is an
//     interval of any statistic.
//  3. A [Shift] is a rank test of a one-parameter model: it gives a p-value at
//     any margin, the Hodges–Lehmann estimate, and bounds at any level that agree
//     with the p-values exactly. [Detectable] is the effect it could have shown. A
//     [MeanShift] answers the same by Student's t.
//  4. [Holm] corrects for many tests. [BinomialInterval] says how well a rate is
//     known.
//  5. [TBoundary] and its like hold one new value against stored ones, [Changes]
//     finds where those changed.
//
// The package knows no benchmarks, units or verdicts and keeps no state but a cache
// of null distributions, so that it may be called from many goroutines. What draws
// random numbers ([Bootstrap], [Changes]) draws them from a seed that it is given.
//
// Nothing here panics on data. A NaN among the data, or too few of them, gives
// NaN (or ok = false), never a number that looks like a result; ±Inf is an
// ordinary, extreme value to the rank tests and not a number to the others.
package stats
