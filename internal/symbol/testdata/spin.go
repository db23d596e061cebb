// Spin burns time in inlined functions, closures and the runtime, until its input ends.
package main

import (
	"io"
	"os"
	"sort"
	"strings"
	"sync/atomic"
)

func step(x uint32) uint32 {
	x ^= x << 13
	x ^= x >> 17
	return x ^ x<<5
}

//go:noinline
func turn(x uint32, list []uint32) uint32 {
	for i := range list {
		for range 50 {
			x = step(x)
		}
		list[i] = x
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return x + uint32(strings.Count(strings.Repeat("ab", int(x%512)), "b"))
}

func main() {
	var end atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		end.Store(true)
	}()
	x, list := uint32(1), make([]uint32, 512)
	for !end.Load() {
		x = turn(x, list)
	}
}
