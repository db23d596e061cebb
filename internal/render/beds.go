package render

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
)

// Texts writes the reports of several testbeds, one after the other as [Text] does,
// and last the verdict of all. Missing is how many testbeds have none.
func Texts(w io.Writer, reports []*gate.Report, missing int, o Options) error {
	one := o
	one.Elapsed = 0 // that of the whole command
	for _, r := range reports {
		if err := Text(w, r, one); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	t := &terminal{o: o}
	verdict, summary := gate.Overall(reports, missing)
	t.summary(&gate.Report{Asked: missing > 0 || asked(reports), Verdict: verdict, Summary: summary})
	_, err := io.WriteString(w, t.b.String())
	return err
}

func asked(reports []*gate.Report) bool {
	for _, r := range reports {
		if r.Asked {
			return true
		}
	}
	return false
}

// JSONs writes the reports of several testbeds as one object: verdict and summary of
// all, and the reports in the order in which they were asked for.
func JSONs(w io.Writer, reports []*gate.Report, missing int) error {
	out := struct {
		Verdict gate.Verdict      `json:"verdict"`
		Summary string            `json:"summary"`
		Reports []json.RawMessage `json:"reports"`
	}{Reports: []json.RawMessage{}}
	out.Verdict, out.Summary = gate.Overall(reports, missing)
	for _, r := range reports {
		var b strings.Builder
		if err := JSON(&b, r); err != nil {
			return err
		}
		out.Reports = append(out.Reports, json.RawMessage(b.String()))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
