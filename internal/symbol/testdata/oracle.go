// Oracle prints what its own runtime says of addresses in it, and waits for the end of its input:
//
//	ADDRESS FUNCTION FILE LINE [FUNCTION FILE LINE]...
//
// Of most addresses the runtime tells the innermost function only; whole chains of inlined
// functions it tells of calls on the stack.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"strings"
)

var out = bufio.NewWriter(os.Stdout)

func write(kind string, pc uintptr, frames []runtime.Frame) {
	fmt.Fprintf(out, "%s\t%x", kind, pc)
	for _, f := range frames {
		// Padding between functions has no line, which the runtime calls a question mark.
		fmt.Fprintf(out, "\t%s\t%s\t%d", f.Function, strings.TrimPrefix(f.File, "?"), f.Line)
	}
	fmt.Fprintln(out)
}

// leaf prints the chain of functions that were inlined into the one that called it.
//
//go:noinline
func leaf() int {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var chain []runtime.Frame
	for {
		f, more := frames.Next()
		chain = append(chain, f)
		if f.Func != nil || !more { // inlined ones have none
			break
		}
	}
	write("chain", pcs[0]-1, chain)
	return len(chain)
}

func one() int { return leaf() + 1 }

func two() int {
	n := one()
	return n + one()
}

type shape interface{ area() int }
type square struct{}

func (square) area() int { return two() * 2 }

func generic[T any](x T, f func(T) int) int { return f(x) + two() }

func main() {
	fmt.Fprintln(out, "#", two(), square{}.area(), generic(square{}, square.area), generic(3, func(int) int { return one() }))
	s := []int{3, 1, 2}
	slices.SortFunc(s, func(a, b int) int { one(); return a - b })
	func() {
		defer func() { recover(); two() }()
		panic(1)
	}()
	starts := []any{fmt.Fprintf, strings.Map, sort.Slice, runtime.GC, bufio.NewWriter, io.Copy, os.Open, main}
	for _, f := range starts {
		start := reflect.ValueOf(f).Pointer()
		for pc := start; pc < start+4096; pc += 3 {
			f := runtime.FuncForPC(pc)
			if f == nil || runtime.FuncForPC(pc+1).Entry() == pc+1 {
				continue
			}
			frame, _ := runtime.CallersFrames([]uintptr{pc + 1}).Next()
			write("leaf", pc, []runtime.Frame{frame})
		}
	}
	fmt.Fprintln(out, "end")
	out.Flush()
	io.Copy(io.Discard, os.Stdin)
}
