package gate

import "github.com/org/ebpf-bench-gate/bench"

// countedIn are the benchmarks of a run of which it is known what they did not do:
// their executed instructions were counted for good, and no member of a family was
// left out for there being too many.
func countedIn(r *bench.Run) map[string]bool {
	counted, members := map[string]bool{}, map[string]int{}
	for i := range r.Results {
		res := &r.Results[i]
		if _, _, ok := bench.SplitMember(res.Measure); ok {
			members[res.Benchmark]++
		}
		if res.Measure == bench.Insns && res.Exact() && len(res.Samples) > 0 {
			counted[res.Benchmark] = true
		}
	}
	for name, n := range members {
		if n >= bench.MaxMembers {
			delete(counted, name)
		}
	}
	return counted
}

// uncalled is the result of a run that did not once see what the other run did: it
// called the helper 0 times. It is nil where that cannot be told.
func uncalled(counted map[string]bool, other *bench.Result) *bench.Result {
	if _, _, member := bench.SplitMember(other.Measure); !member || bench.IsDeclared(other.Measure) || !other.Exact() || !counted[other.Benchmark] {
		return nil
	}
	return &bench.Result{
		Benchmark: other.Benchmark, Program: other.Program, Measure: other.Measure, Kind: other.Kind, Path: other.Path,
		Samples: []bench.Sample{{Value: 0, Offset: -1}},
	}
}
