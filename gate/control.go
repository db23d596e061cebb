package gate

import "fmt"

// controlAlpha is the chance that an honest host fails its control.
const controlAlpha = 0.001

// control judges the noisy rows' host. The control is one benchmark's base,
// loaded a third time in every round and measured beside both sides: two names
// for the same program. Where even those differ, something here measures by
// place, order or time, and no noisy verdict of this session can be believed,
// good or bad.
func (r *Report) control(w *row, family []*row, p Policy) {
	if w == nil || len(w.looks) == 0 {
		return
	}
	v, _ := w.view(w.looks[len(w.looks)-1])
	if v == nil {
		return
	}
	pv := min(1, 2*min(v.shift.Greater(0), v.shift.Less(0)))
	r.Control = &Control{Rounds: v.rounds, Change: v.shift.Estimate(), P: pv}
	if pv > controlAlpha {
		return
	}
	reason := fmt.Sprintf("this host cannot be trusted: it measured a program different from itself by %+.2f%% (p = %.2g)", 100*v.shift.Estimate(), pv)
	r.warn("%s", reason)
	for _, w := range family {
		w.Open = false
		w.inconclusive(reason)
	}
}

// A Control is how a program compared with itself.
type Control struct {
	Rounds int `json:"rounds"`
	// Change is the estimated change, as a ratio; the truth is 0.
	Change float64 `json:"change"`
	P      float64 `json:"p"` // two-sided
}
