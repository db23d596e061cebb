package render

import (
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/gate"
)

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{quantity(98.6, "ns"), "98.6 ns"},
		{quantity(1.234, "ns"), "1.23 ns"},
		{quantity(999.96, "ns"), "1.00 µs"},
		{quantity(1234, "ns"), "1.23 µs"},
		{quantity(2.5e6, "ns"), "2.50 ms"},
		{quantity(-3e9, "ns"), "-3.00 s"},
		{quantity(4e12, "ns"), "4,000.0 s"},
		{quantity(1500, "us"), "1.50 ms"},
		{quantity(1972, "insns"), "1,972"},
		{quantity(999, "bytes"), "999"},
		{quantity(-1234567, "count"), "-1,234,567"},
		{quantity(2.5, "count"), "2.5"},
		{quantity(3, "req/s"), "3 req/s"},
		{percent(1.403), "+140.3%"},
		{percent(-0.00001), "+0.0%"},
		{percent(33), "+3,300.0%"},
		{level(0.99), "99%"},
		{level(0.95), "95%"},
		{level(0.9987), "99.8%"},
		{level(0.99999), "99.999%"},
		{level(0.999999999), "99.999999%"},
		{level(1), "?"},
		{elapsed(9840 * time.Millisecond), "9.8 s"},
		{elapsed(90 * time.Second), "1m30s"},
		{cpu("AMD EPYC 7763 64-Core Processor"), "EPYC 7763"},
		{cpu("Intel(R) Xeon(R) CPU E5-2673 v4 @ 2.30GHz"), "Xeon E5-2673 v4"},
		{net(&gate.Comparison{Base: p(100), Head: p(120), Floor: p(50)}), "+40.0%"},
		{net(&gate.Comparison{Base: p(50), Head: p(120), Floor: p(50)}), ""},
		{net(&gate.Comparison{Base: p(40), Head: p(120), Floor: p(50)}), ""},
		{shorten("abcdefgh", 5), "ab…gh"},
		{shorten("地地地地", 5), "地…地"},
		{shorten("abc", 3), "abc"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
