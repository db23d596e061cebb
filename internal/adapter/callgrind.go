package adapter

import (
	"regexp"
	"strings"
)

var callgrindHead = regexp.MustCompile(`(?m)\A(# callgrind format|version: \d+\n)(?s:.*)^events: `)

func isCallgrind(s shape) bool { return s.has(callgrindHead) }

// readCallgrind reads the totals of a profile: its events, and with the simulated
// caches what Gungraun makes of them: hits of the first level, of the last one and of
// memory, and the cycles that they would take.
func readCallgrind(s *source) {
	command := ""
	var events, summary, totals []string
	s.lines(func(line string) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return
		}
		switch key {
		case "cmd":
			command = value
		case "events":
			events = strings.Fields(value)
		case "summary":
			summary = s.costs(events, value)
		case "totals":
			totals = s.costs(events, value)
		}
	})
	if totals == nil { // of a part, or another writer
		totals = summary
	}
	if totals == nil {
		s.fail("the file is cut off: it has neither a summary nor totals")
	}
	name := s.single(command, "callgrind")
	cost := map[string]float64{}
	for i, text := range totals {
		v := s.number(text)
		cost[events[i]] = v
		if events[i] == "Ir" {
			s.add(name, tally("instructions", "count"), v)
			continue
		}
		s.add(name, tally(events[i], "count"), v)
	}
	if _, simulated := cost["I1mr"]; !simulated {
		return
	}
	all := cost["Ir"] + cost["Dr"] + cost["Dw"]
	first := cost["I1mr"] + cost["D1mr"] + cost["D1mw"]
	last := cost["ILmr"] + cost["DLmr"] + cost["DLmw"]
	s.add(name, tally("l1-hits", "count"), all-first)
	s.add(name, tally("ll-hits", "count"), first-last)
	s.add(name, tally("ram-hits", "count"), last)
	s.add(name, tally("estimated-cycles", "count"), all-first+5*(first-last)+35*last)
}

// costs are the numbers of a line, one an event; those left out at its end are 0.
func (s *source) costs(events []string, value string) []string {
	costs := strings.Fields(value)
	if len(costs) > len(events) || len(events) > 100 {
		s.fail("%d costs of %d events", len(costs), len(events))
	}
	for len(costs) < len(events) {
		costs = append(costs, "0")
	}
	return costs
}
