// Package cover shows what benchmarks executed of programs: as a table in the
// terminal, as a tracefile for lcov and genhtml, and as a page of annotated source.
//
// It is the last step of `gate cover`: package bpf counts, this package adds up by
// file and writes. It judges nothing. Everything in a coverage comes from an object
// that anybody may have made: names and lines reach a terminal or a page as text
// only, and a source file is read only where it lies in a directory that the caller
// names, and holds the lines that the object says it does.
package cover
