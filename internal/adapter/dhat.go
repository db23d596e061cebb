package adapter

import (
	"cmp"
	"path"
	"regexp"
	"strings"
)

var dhatLine = regexp.MustCompile(`(?m)^(==\d+== |dhat: )At t-gmax: *[\d,]+ bytes`)

func isDHAT(s shape) bool { return s.json && s.keys["dhatFileVersion"] || s.has(dhatLine) }

// readDHAT reads the profile, whose points it adds up, or the lines that sum it up.
func readDHAT(s *source) {
	if c := s.first(); c != '{' {
		s.dhatText()
		return
	}
	command := ""
	var sum [10]float64
	keys := map[string]int{"tb": 0, "tbk": 1, "gb": 2, "gbk": 3, "eb": 4, "ebk": 5, "rb": 6, "wb": 7}
	var seen [10]bool
	s.walk(func(w *walker) {
		w.fields("the file", map[string]func(){
			"cmd": func() { command = w.text() },
			"pps": func() {
				seen[0], seen[1] = true, true
				w.list("pps", func() {
					w.object("a point", func(key string) {
						if i, ok := keys[key]; ok {
							sum[i] += w.float(key)
							seen[i] = true
							return
						}
						w.skip()
					})
				})
			},
		})
	})
	for i, name := range dhatNames {
		if seen[i] {
			s.add(s.single(command, "dhat"), tally(name, dhatUnit(name)), sum[i])
		}
	}
}

var dhatNames = []string{
	"total-bytes", "total-blocks", "at-t-gmax-bytes", "at-t-gmax-blocks", "at-t-end-bytes", "at-t-end-blocks", "reads-bytes", "writes-bytes",
}

func dhatUnit(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

var dhatSummary = regexp.MustCompile(`^(?:==\d+== |dhat: )(Total|At t-gmax|At t-end|Reads|Writes|Command): *(?:([\d,]+) bytes(?: in ([\d,]+) blocks)?|(.*))$`)

func (s *source) dhatText() {
	command := ""
	s.lines(func(line string) {
		m := dhatSummary.FindStringSubmatch(line)
		if m == nil {
			return
		}
		if m[1] == "Command" {
			command = m[4]
			return
		}
		if m[2] == "" {
			s.fail("%s: expected bytes, as in \"1,024 bytes in 2 blocks\"", m[1])
		}
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		benchmark := s.single(command, "dhat")
		s.add(benchmark, tally(name+"-bytes", "bytes"), s.number(m[2]))
		if m[3] != "" {
			s.add(benchmark, tally(name+"-blocks", "blocks"), s.number(m[3]))
		}
	})
}

// single is the name of a file's only benchmark: what the user says, or the program of
// the command, without its directories.
func (s *source) single(command, otherwise string) string {
	program, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	if program != "" {
		program = path.Base(program)
	}
	return cmp.Or(s.Benchmark, program, otherwise)
}
