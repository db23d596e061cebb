package stats

import (
	"math/bits"
	"slices"
)

// nth puts the k-th smallest number of x, from 0, where sorting would, with none
// larger before it and none smaller after it (Hoare 1961). Numbers that are arranged
// so that every pivot is a bad one are sorted.
func nth(x []float64, k int) {
	for tries := 2 * bits.Len(uint(len(x))); len(x) > 1; tries-- {
		if tries == 0 {
			slices.Sort(x)
			return
		}
		first, middle, last := x[0], x[len(x)/2], x[len(x)-1]
		pivot := max(min(first, middle), min(max(first, middle), last))
		i, j := 0, len(x)-1
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch { // what lies between j and i is the pivot
		case k <= j:
			x = x[:j+1]
		case k >= i:
			x, k = x[i:], k-i
		default:
			return
		}
	}
}
