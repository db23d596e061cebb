package adapter

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
)

var (
	catch2XML  = regexp.MustCompile(`<Catch(2TestRun)?[ >]`)
	catch2Text = regexp.MustCompile(`(?m)^benchmark name +samples +iterations +(?:(?:est run time|estimated) *\r?\n +mean +low mean +high mean|mean *\r?$)`)
	// Without analysis (--benchmark-no-analysis) a benchmark has one line.
	catch2Plain = regexp.MustCompile(`^(?:(\S.*?) )? *\d+ +\d+ +([\d.]+) (ns|us|ms|s|m) *$`)
	// The second line of a benchmark: mean and its bounds.
	catch2Mean = regexp.MustCompile(`^ +([\d.]+) (ns|us|ms|s|m) +[\d.]+ (?:ns|us|ms|s|m) +[\d.]+ (?:ns|us|ms|s|m) *$`)
	catch2Name = regexp.MustCompile(`^(\S.*?)(?: +\d+ +\d+ +[\d.]+ (?:ns|us|ms|s|m))? *$`)
	catch2Runs = regexp.MustCompile(`^ +\d+ +\d+ +[\d.]+ (?:ns|us|ms|s|m) *$`)
)

func isCatch2(s shape) bool { return s.has(catch2XML) || s.has(catch2Text) }

// readCatch2 reads the means of benchmarks, which is all that Catch2 tells of their
// samples: one sample each. A benchmark is named after its test case and itself.
func readCatch2(s *source) {
	if s.first() == '<' {
		s.catch2XML()
		return
	}
	test, name := "", ""
	// Rulers enclose the title of a test case: its name, then sections. One more
	// stands under the head of a table.
	title, head, table, mean, plain := false, false, false, false, false
	s.lines(func(line string) {
		switch {
		case strings.HasPrefix(line, "-----"):
			name, mean = "", false
			switch {
			case head:
				head, table = false, true
			case title:
				title = false
			default:
				title, table, test = true, false, ""
			}
		case strings.HasPrefix(line, "benchmark name"):
			head, table, plain = true, false, strings.HasSuffix(strings.TrimSpace(line), " mean")
		case strings.HasPrefix(line, "===="):
			title, head, table = false, false, false
		case title && test == "":
			test = strings.TrimSpace(line)
		case table && plain && catch2Plain.MatchString(line):
			m := catch2Plain.FindStringSubmatch(line)
			s.addTest(test, strings.TrimSpace(name+" "+m[1]), s.number(m[2])*nanoseconds(m[3]))
			name, mean = "", false
		case table:
			s.catch2Row(line, test, &name, &mean)
		}
	})
}

func (s *source) catch2Row(line, test string, name *string, mean *bool) {
	if m := catch2Mean.FindStringSubmatch(line); m != nil && *mean {
		*mean = false
		s.addTest(test, *name, s.number(m[1])*nanoseconds(m[2]))
	} else if catch2Runs.MatchString(line) {
		*mean = *name != ""
	} else if m := catch2Name.FindStringSubmatch(line); m != nil {
		// A long name goes on in lines of its own.
		if *name != "" && !*mean {
			*name += " " + m[1]
		} else {
			*name = m[1]
		}
		*mean = strings.TrimSpace(line) != m[1]
	} else if strings.TrimSpace(line) == "" {
		*name, *mean = "", false
	}
}

func (s *source) addTest(test, name string, ns float64) {
	if test != "" {
		name = test + "/" + name
	}
	s.add(name, latency, ns)
}

func (s *source) catch2XML() {
	s.whole()
	d := xml.NewDecoder(s.in)
	s.at = func() (line, col int) {
		line, col = d.InputPos()
		return line, max(col, 1) // 0 where it took a line's end back
	}
	test, name := "", ""
	depth := 0
	for {
		t, err := d.RawToken() // namespaces and entities of a stranger's are not resolved
		if errors.Is(err, io.EOF) {
			if depth > 0 {
				s.fail("the file is cut off")
			}
			return
		}
		if err != nil {
			s.broken(err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				s.fail("nested more than %d deep", maxDepth)
			}
			attr := map[string]string{}
			for _, a := range t.Attr {
				attr[a.Name.Local] = a.Value
			}
			switch t.Name.Local {
			case "TestCase":
				test = attr["name"]
			case "BenchmarkResults":
				name = attr["name"]
			case "mean":
				if name != "" {
					s.addTest(test, name, s.number(attr["value"]))
				}
			case "failed":
				if name != "" {
					s.skip(name, "it failed: "+attr["message"])
				}
			}
		case xml.EndElement:
			depth--
			if t.Name.Local == "BenchmarkResults" {
				name = ""
			}
		}
	}
}
