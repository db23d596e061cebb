// Package test tries gate from end to end, as its users do: testscripts in
// script/ run the real command line on the real kernel, and every command that
// the documents show is tried. It holds tests alone.
package test
