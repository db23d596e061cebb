// Command target is something to profile: it looks for amicable pairs, numbers of which
// each is the sum of the other's proper divisors, below a limit.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	below := flag.Int("below", 20_000, "look at the numbers below `N`")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	for a := 2; a < *below; a++ {
		if b := divisors(a); b > a && divisors(b) == a {
			fmt.Println(a, b)
		}
	}
}

// divisors is the sum of the proper divisors of n.
//
//go:noinline
func divisors(n int) int {
	sum := 0
	for d := 1; d <= n/2; d++ {
		if n%d == 0 {
			sum += d
		}
	}
	return sum
}
