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
	var events []string
	var summary, totals []eventCost
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
	for _, c := range totals {
		cost[c.event] = c.value
		if c.event == "Ir" {
			s.add(name, tally("instructions", "count"), c.value)
			continue
		}
		s.add(name, tally(c.event, "count"), c.value)
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

// An eventCost is how often an event happened.
type eventCost struct {
	event string
	value float64
}

// costs are the numbers of a line, one for each of the events that the file named last;
// those left out at its end are 0.
func (s *source) costs(events []string, line string) []eventCost {
	numbers := strings.Fields(line)
	if len(numbers) > len(events) || len(events) > 100 {
		s.fail("%d costs of %d events", len(numbers), len(events))
	}
	costs := make([]eventCost, len(events))
	for i, event := range events {
		costs[i].event = event
		if i < len(numbers) {
			costs[i].value = s.number(numbers[i])
		}
	}
	return costs
}
