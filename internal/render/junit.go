package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// JUnit writes reports as the XML that JUnit's users agree on (Jenkins's
// junit-10.xsd): a test suite a testbed, a test case a judged comparison, and one for
// each program that was not accepted and each thing that was skipped. Regressed is a
// failure; what is not known, or was asked for and is missing, is an error. What is only
// told has no test case.
//
// The whole is never better than the verdict: where no case says what the report does,
// one of the name "verdict" does.
func JUnit(w io.Writer, reports []*gate.Report, missing int) error {
	all := junitSuites{Name: "ebpf-bench-gate"}
	names := bedNames(reports)
	for i, r := range reports {
		all.add(junitSuiteOf(names[i], r))
	}
	if missing > 0 || len(reports) == 0 {
		s := junitSuite{Name: "not measured"}
		s.add(junitCase{Class: "gate", Name: "verdict", Error: problem("unmeasured", fmt.Sprintf("%s could not be measured", english.Count(max(missing, 1), "testbed")), "")})
		all.add(s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

type junitCounts struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr,omitempty"`
	Time     string `xml:"time,attr,omitempty"` // seconds
}

type junitSuites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Suites   []junitSuite
}

type junitSuite struct {
	XMLName xml.Name `xml:"testsuite"`
	Name    string   `xml:"name,attr"`
	junitCounts
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase
	SystemOut  string `xml:"system-out,omitempty"`
	seconds    float64
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	XMLName xml.Name      `xml:"testcase"`
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr,omitempty"`
	Skipped *junitSkip    `xml:"skipped"`
	Error   *junitProblem `xml:"error"`
	Failure *junitProblem `xml:"failure"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitSkip struct {
	Message string `xml:"message,attr"`
}

type junitProblem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func problem(kind, message, text string) *junitProblem {
	return &junitProblem{Type: kind, Message: clean(message), Text: text}
}

func (s *junitSuites) add(one junitSuite) {
	if one.seconds > 0 {
		one.Time = fmt.Sprintf("%.3f", one.seconds)
	}
	s.Tests, s.Failures, s.Errors = s.Tests+one.Tests, s.Failures+one.Failures, s.Errors+one.Errors
	s.Suites = append(s.Suites, one)
}

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func junitSuiteOf(name string, r *gate.Report) junitSuite {
	s := junitSuite{Name: name, SystemOut: clean(r.Summary)}
	for _, p := range []junitProperty{
		{"head", clean(r.Head.Short())}, {"base", against(r)}, {"testbed", testbed(r.Testbed)}, {"seed", seed(r)},
	} {
		if p.Value != "" {
			s.Properties = append(s.Properties, p)
		}
	}
	timed := map[string]bool{} // the time of a benchmark is that of all its measures
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if !c.Judged {
			continue
		}
		one := junitComparison(c)
		if c.Seconds > 0 && !timed[c.Benchmark] {
			timed[c.Benchmark] = true
			one.Time = fmt.Sprintf("%.3f", c.Seconds)
			s.seconds += c.Seconds
		}
		s.add(one)
	}
	for _, p := range r.Programs {
		one := junitCase{Class: clean(p.Program), Name: "verifier"}
		switch r.Answer(p) {
		case gate.Regressed:
			one.Failure = problem("rejected", programInWords(p), logTail(p))
		case gate.Inconclusive:
			one.Error = problem("rejected", programInWords(p), logTail(p))
		default:
			one.Out = programInWords(p)
		}
		s.add(one)
	}
	for _, skip := range r.Skipped {
		one := junitCase{Class: clean(skip.Name), Name: "measured"}
		if skip.Required {
			one.Error = problem("unmeasured", skip.Reason, clean(skip.Hint))
		} else {
			one.Skipped = &junitSkip{Message: clean(skip.Reason)}
		}
		s.add(one)
	}
	verdict := junitCase{Class: "gate", Name: "verdict"}
	switch {
	case r.Verdict == gate.Regressed && s.Failures == 0:
		verdict.Failure = problem(r.Verdict.String(), r.Summary, "")
	case r.Verdict == gate.Inconclusive && r.Asked && s.Failures+s.Errors == 0:
		verdict.Error = problem(r.Verdict.String(), r.Summary, "")
	case s.Tests == 0:
	default:
		return s
	}
	s.add(verdict)
	return s
}

func junitComparison(c *gate.Comparison) junitCase {
	one := junitCase{Class: clean(c.Benchmark), Name: clean(c.Measure)}
	text := strings.Join(explained(c), "\n")
	for _, w := range c.Warnings {
		text = strings.TrimPrefix(text+"\nwarning: "+clean(w), "\n")
	}
	switch c.Verdict {
	case gate.Regressed:
		one.Failure = problem(c.Verdict.String(), inWords(c), text)
	case gate.Inconclusive, gate.Missing:
		one.Error = problem(c.Verdict.String(), inWords(c), text)
	default:
		one.Out = strings.TrimSuffix(inWords(c)+"\n"+text, "\n")
	}
	return one
}
