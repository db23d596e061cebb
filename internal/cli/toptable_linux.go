package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A topTable is what gate top shows at one time. Its fields are those of the JSON.
type topTable struct {
	Time     time.Time `json:"time"`
	Interval float64   `json:"interval_s"`
	// Programs are those that the filters let through, sorted. Loaded are all
	// that were looked at.
	Programs []topProgram `json:"programs"`
	Loaded   int          `json:"loaded"`
	CPU      float64      `json:"cpu_percent"`      // of the programs shown, together
	Own      float64      `json:"gate_cpu_percent"` // of gate itself
	// Partly tells that the search for holders ended before it had looked
	// everywhere.
	Partly bool `json:"holders_incomplete,omitempty"`
}

// A topProgram is a line of the table. Shares are in percent of one CPU.
type topProgram struct {
	ID        uint32            `json:"id"`
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Tag       string            `json:"tag"`
	Runs      float64           `json:"runs_per_second"`
	NS        *float64          `json:"ns_per_run"` // null: it did not run
	CPU       float64           `json:"cpu_percent"`
	Misses    float64           `json:"recursion_misses_per_second,omitempty"`
	Uncounted bool              `json:"uncounted,omitempty"`
	Holders   []programs.Holder `json:"held_by"`
}

func (p topProgram) perRun() float64 {
	if p.NS == nil {
		return 0
	}
	return *p.NS
}

func newTopTable(f topFlags, costs []programs.Cost, now time.Time, over time.Duration) *topTable {
	t := &topTable{Time: now.UTC(), Interval: over.Seconds(), Programs: []topProgram{}, Loaded: len(costs)}
	for _, c := range costs {
		if !f.shows(c.Info) {
			continue
		}
		p := topProgram{ID: c.ID, Name: c.Name, Type: c.Type, Tag: c.Tag, Uncounted: c.Uncounted, Holders: c.Holders}
		if p.Holders == nil {
			p.Holders = []programs.Holder{}
		}
		if s := c.Over.Seconds(); s > 0 {
			p.Runs, p.CPU, p.Misses = float64(c.Runs)/s, 100*c.Time.Seconds()/s, float64(c.Misses)/s
		}
		if c.Runs > 0 {
			ns := float64(c.Time) / float64(c.Runs)
			p.NS = &ns
		}
		t.CPU += p.CPU
		t.Programs = append(t.Programs, p)
	}
	order := topOrders[f.sort]
	slices.SortFunc(t.Programs, func(a, b topProgram) int { return cmp.Or(order(a, b), cmp.Compare(a.ID, b.ID)) })
	return t
}

func (t *topTable) json(w io.Writer) error { return json.NewEncoder(w).Encode(t) }

// text writes the table: a line of the whole, one of titles, one a program. Wide
// and high bound its columns and lines; 0 does not.
func (t *topTable) text(w io.Writer, wide, high int) error {
	ran := 0
	for _, p := range t.Programs {
		if p.NS != nil {
			ran++
		}
	}
	whole := fmt.Sprintf("%s  %d of %d programs, %d ran in %.1f s: %s of a CPU  (gate itself: %s)",
		t.Time.Local().Format(time.TimeOnly), len(t.Programs), t.Loaded, ran, t.Interval, share(t.CPU), share(t.Own))
	if t.Partly {
		whole += "; not all holders were looked for"
	}
	rows := [][]string{{"ID", "TYPE", "RUNS/S", "NS/RUN", "CPU", "NAME", "HELD BY"}}
	for _, p := range t.Programs {
		if high > 0 && len(rows) >= high-1 {
			break
		}
		rows = append(rows, p.cells())
	}
	widths := make([]int, len(rows[0])-1) // what is last needs no padding
	for _, r := range rows {
		for i := range widths {
			widths[i] = max(widths[i], len(r[i]))
		}
	}
	const name, shortest, holder = 5, 12, 16
	if wide > 0 { // one long name must not hide who holds the others
		others := holder
		for i, n := range widths {
			if others += 2; i != name {
				others += n
			}
		}
		widths[name] = min(widths[name], max(shortest, wide-others))
	}
	var b strings.Builder
	b.WriteString(cut(whole, wide) + "\n")
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			switch {
			case i == len(widths):
				line.WriteString(cell)
			case i == 1 || i == name:
				fmt.Fprintf(&line, "%-*s  ", widths[i], cut(cell, widths[i]))
			default:
				fmt.Fprintf(&line, "%*s  ", widths[i], cell)
			}
		}
		b.WriteString(cut(strings.TrimRight(line.String(), " "), wide) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells are the columns of a program. All of it is ASCII.
func (p topProgram) cells() []string {
	runs, ns, cpu := "-", "-", "-"
	if p.NS != nil {
		runs, ns, cpu = figure(p.Runs), figure(*p.NS), share(p.CPU)
	}
	name := p.Name
	if name == "" {
		name = "tag " + p.Tag
	}
	if p.Uncounted {
		name += " (not counted)"
	}
	var by []string
	for i, h := range p.Holders {
		if i == 3 {
			by = append(by, fmt.Sprintf("%d more", len(p.Holders)-i))
			break
		}
		by = append(by, fmt.Sprintf("%s %d", h.Command, h.PID))
	}
	return []string{strconv.FormatUint(uint64(p.ID), 10), p.Type, runs, ns, cpu, name, strings.Join(by, ", ")}
}

// share is a share of a CPU, given in percent.
func share(percent float64) string {
	if percent < 10 {
		return fmt.Sprintf("%.2f%%", percent)
	}
	return fmt.Sprintf("%.1f%%", percent)
}

// figure is a number with three digits that tell.
func figure(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// cut shortens ASCII to so many columns; 0 is any number.
func cut(s string, wide int) string {
	if wide > 0 && len(s) > wide {
		return s[:wide-1] + "+"
	}
	return s
}
