package main

import "testing"

func TestDivisors(t *testing.T) {
	for _, pair := range [][2]int{{220, 284}, {1184, 1210}, {2620, 2924}} {
		if a, b := divisors(pair[0]), divisors(pair[1]); a != pair[1] || b != pair[0] {
			t.Errorf("%v: %d and %d", pair, b, a)
		}
	}
	if n := divisors(6); n != 6 { // perfect, and its own friend
		t.Errorf("6: %d", n)
	}
}
