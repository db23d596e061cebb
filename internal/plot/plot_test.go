package plot

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

func run(id, session string, at int, values ...float64) *bench.Run {
	res := bench.Result{Benchmark: "p/case", Program: "p", Measure: bench.Latency}
	for i, v := range values {
		res.Samples = append(res.Samples, bench.Sample{Round: i, Value: v})
	}
	return &bench.Run{ID: id, Session: session, Time: time.Unix(int64(at), 0), Results: []bench.Result{res}}
}

var latency = &gate.Comparison{Benchmark: "p/case", Measure: bench.Latency, Unit: "ns"}

func TestFigure(t *testing.T) {
	// Of base, 200 lies outside the outer fences.
	f := New(run("b", "s", 0, 10, 11, 12, 13, 200), run("h", "s", 0, 20, 21, 22, 23, 24), nil).Of(latency)
	if !f.Drawn() || !f.Paired || f.Low != 10 || f.High != 24 || f.Bad != 1 || f.History != nil {
		t.Errorf("%+v", f)
	}
	if len(f.Base.Values) != 5 || !slices.Equal(f.Base.Rounds, []int{0, 1, 2, 3, 4}) || len(f.Base.Density) != Places || f.Base.From >= 10 || f.Base.To <= 13 || f.Base.To > 24 {
		t.Errorf("%+v", f.Base)
	}
	if slices.ContainsFunc(f.Base.Density, func(d float64) bool { return !(d >= 0) }) {
		t.Errorf("the density %v", f.Base.Density)
	}
	// Alone, of other sessions, exact.
	if f := New(nil, run("h", "s", 0, 1, 2), nil).Of(latency); f.Paired || len(f.Base.Values) != 0 || !f.Drawn() {
		t.Errorf("head alone: %+v", f)
	}
	if f := New(run("b", "s", 0, 1, 2), run("h", "t", 0, 1, 2), nil).Of(latency); f.Paired {
		t.Error("two sessions are paired")
	}
	exact := *latency
	exact.Exact = true
	if f := New(run("b", "s", 0, 1, 2), run("h", "s", 0, 1, 2), nil).Of(&exact); f.Drawn() {
		t.Error("an exact measure has samples to draw")
	}
	if f := New(nil, nil, nil).Of(latency); f.Drawn() || f.History != nil {
		t.Errorf("nothing: %+v", f)
	}
	// What does not vary has a range and no density.
	if f := New(run("b", "s", 0, 5, 5, 5), run("h", "s", 0, 5, 5, 5), nil).Of(latency); f.Low != 5 || f.High != 5 || f.Base.Density != nil {
		t.Errorf("values that do not vary: %+v", f)
	}
	if f := New(run("b", "s", 0, -math.MaxFloat64, math.MaxFloat64), run("h", "s", 0, 1, 2), nil).Of(latency); f.Drawn() {
		t.Error("a range that overflows is drawn")
	}
}

func TestBad(t *testing.T) {
	for _, tt := range []struct {
		c    gate.Comparison
		want float64
	}{
		{gate.Comparison{Measure: bench.Latency}, 1},
		{gate.Comparison{Measure: bench.Latency, Better: bench.Higher}, 1}, // nobody turns a measure
		{gate.Comparison{Measure: "figure[rate]", Better: bench.Higher}, -1},
		{gate.Comparison{Measure: "figure[time]", Better: bench.Lower}, 1},
		{gate.Comparison{Measure: "unknown"}, 1},
	} {
		if got := bad(&tt.c); got != tt.want {
			t.Errorf("%s %s: %g", tt.c.Measure, tt.c.Better, got)
		}
	}
}

func TestHistory(t *testing.T) {
	head := run("h", "s", 1000, 20, 21)
	past := []*bench.Run{head, nil}
	for i := range MaxHistory + 20 {
		past = append(past, run(fmt.Sprintf("p%d", i), "", i, float64(i)))
	}
	other := run("other", "", 5, 1e6)
	other.Testbed.Name = "elsewhere"
	past = append(past, other)
	slices.Reverse(past)
	f := New(nil, head, past).Of(latency)
	if f.History == nil || len(f.History.Points) != MaxHistory {
		t.Fatalf("%+v", f.History)
	}
	for i, p := range f.History.Points {
		if want := float64(20 + i); p.Value != want {
			t.Fatalf("point %d is %g, want %g: the newest, in order", i, p.Value, want)
		}
	}
	if f := New(nil, head, past[len(past)-3:]).Of(latency); f.History != nil {
		t.Errorf("one run is a history: %+v", f.History)
	}
}

func TestThin(t *testing.T) {
	var s Side
	for i := range 100 {
		s.Values, s.Rounds = append(s.Values, float64(i)), append(s.Rounds, i)
	}
	if got := s.Thin(100); len(got.Values) != 100 {
		t.Errorf("%d of 100", len(got.Values))
	}
	got := s.Thin(30)
	if !slices.Equal(got.Rounds[:3], []int{0, 4, 8}) || len(got.Values) != 25 || got.Values[24] != 96 {
		t.Errorf("%+v", got)
	}
}
