package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// quantity is a number with its unit: times scaled, counts with separators. The
// units of counts stand in the names of their measures.
func quantity(x float64, unit string) string {
	switch unit {
	case "ns":
		return duration(x)
	case "us":
		return duration(1000 * x)
	case "insns", "bytes", "states", "count", "":
		return count(x)
	}
	// A declared one, of a figure of the work.
	prefix := ""
	for _, p := range []string{"M", "G", "T"} {
		if math.Abs(x) < 1e6 && prefix == "" || math.Abs(x) < 1e3 {
			break
		}
		if prefix == "" {
			x /= 1e3
		}
		x, prefix = x/1e3, p
	}
	return count(x) + " " + prefix + clean(unit)
}

// duration scales nanoseconds, to three digits or more.
func duration(ns float64) string {
	unit := "ns"
	for _, u := range []string{"µs", "ms", "s"} {
		if math.Abs(ns) < 999.95 {
			break
		}
		ns, unit = ns/1000, u
	}
	decimals := 1
	if math.Abs(ns) < 10 {
		decimals = 2
	}
	return separate(strconv.FormatFloat(ns, 'f', decimals, 64)) + " " + unit
}

func count(x float64) string {
	decimals := 0
	switch whole := math.Abs(x); {
	case x == math.Trunc(x):
	case whole < 1:
		decimals = 3
	case whole < 10:
		decimals = 2
	default:
		decimals = 1
	}
	if math.Abs(x) >= 1e15 {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if decimals > 1 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return separate(s)
}

// separate puts commas between the thousands.
func separate(s string) string {
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	whole, fraction, dot := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + fraction
	}
	return sign + whole
}

// percent is a ratio with its sign: +0.05 is "+5.0%".
func percent(x float64) string { return points(x) + "%" }

func points(x float64) string {
	if math.Abs(x) < 0.0005 {
		x = 0 // no "-0.0"
	}
	return separate(fmt.Sprintf("%+.1f", 100*x))
}

// level is a probability in per cent, with as many digits as it takes not to say
// 100, and rounded down: no interval is surer than it is.
func level(x float64) string {
	if !(x > 0 && x < 1) {
		return "?"
	}
	decimals := 0
	for rest := 100 * (1 - x); rest < 0.999999 && decimals < 6; rest *= 10 {
		decimals++
	}
	scale := math.Pow10(decimals)
	// 99 is 98.99999999 in floating point.
	down := math.Floor(100*x*scale+1e-6) / scale
	return strconv.FormatFloat(down, 'f', -1, 64) + "%"
}

// elapsed is a wall time for people.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// seconds is about so many of them.
func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.1g s", max(s, 0.1))
	}
	return separate(fmt.Sprintf("%.0f", s)) + " s"
}

// testbed is one line about the host.
func testbed(t bench.Testbed) string {
	var parts []string
	add := func(ok bool, s string) {
		if ok && s != "" {
			parts = append(parts, s)
		}
	}
	add(true, shorten(clean(t.Name), 60))
	add(t.Kernel != "", "Linux "+shorten(clean(t.Kernel), 40))
	add(t.Arch != "amd64", clean(t.Arch))
	add(true, cpu(t.CPU))
	virtualization := clean(t.Virtualization)
	if len(virtualization) <= 4 { // kvm, xen, qemu
		virtualization = strings.ToUpper(virtualization)
	}
	add(true, virtualization)
	add(t.Kernel != "" && !t.JIT, "no JIT")
	add(t.Hardened, "hardened")
	return strings.Join(parts, ", ")
}

// cpu leaves of a model name what tells models apart: "AMD EPYC 7763 64-Core
// Processor" is EPYC 7763.
func cpu(model string) string {
	model, _, _ = strings.Cut(clean(model), "@")
	model = strings.NewReplacer("(R)", "", "(r)", "", "(TM)", "", "(tm)", "").Replace(model)
	var words []string
	for _, w := range strings.Fields(model) {
		if w != "CPU" && w != "Processor" && w != "AMD" && w != "Intel" && !strings.HasSuffix(w, "-Core") {
			words = append(words, w)
		}
	}
	return shorten(strings.Join(words, " "), 40)
}

// rounds are how many pairs the rows have.
func rounds(r *gate.Report) string {
	low, high := 0, 0
	for _, c := range r.Comparisons {
		if c.Exact || c.Rounds == 0 {
			continue
		}
		if low == 0 || c.Rounds < low {
			low = c.Rounds
		}
		high = max(high, c.Rounds)
	}
	switch {
	case high == 0:
		return ""
	case low == high:
		return fmt.Sprintf("%d rounds", high)
	}
	return fmt.Sprintf("%d to %d rounds", low, high)
}
