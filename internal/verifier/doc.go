// Package verifier shows what the kernel's verifier said of programs, as veristat
// does: any set of objects, filters, an order, a choice of columns, two sets side by
// side, as a table, CSV or JSON. One table of statistics drives all of it.
//
// The flow, in order:
//
//  1. [Find] turns arguments into [Source]s: object files, directories, patterns,
//     executables that hold objects. [Measure] loads their programs, many at a time,
//     and keeps a [Row] of numbers of each. [Read] takes rows from a file instead.
//  2. [Join] makes a [Pair] of base and head for each program; without a base, head
//     stands alone.
//  3. [Query.Select] filters, sorts and cuts, and its Write functions show the rest.
//
// A program that does not load is a row, never an error. The package judges nothing:
// the policy and its limits are package gate's. Everything but Find's reading of
// objects and Measure works on any operating system.
//
// Names in objects may come from anybody; what is written holds no control
// characters, and CSV no separators within names.
package verifier
