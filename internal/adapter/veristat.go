package adapter

import (
	"encoding/csv"
	"errors"
	"io"
	"path"
	"regexp"

	"github.com/org/ebpf-bench-gate/bench"
)

var veristatHead = regexp.MustCompile(`\A(?:[a-z_]+,)*prog_name,[a-z_]`)

func isVeristat(s shape) bool { return s.has(veristatHead) }

// veristatMeasures are the columns of veristat that are measures, where they are not
// named as the gate names them.
var veristatMeasures = map[string]string{
	"duration": bench.VerificationUS, "total_insns": bench.VerifiedInsns, "prog_size_jited": bench.JitedBytes,
	"stack": bench.StackDepth,
}

// readVeristat reads what the verifier said of programs, named after their files and
// themselves. Those that it rejected have no numbers.
func readVeristat(s *source) {
	s.whole()
	r := csv.NewReader(s.in)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		s.csv(err)
	}
	columns := make([]string, len(head))
	copy(columns, head)
	known := false
	for _, c := range columns {
		_, ok := veristatMeasures[c]
		m, table := bench.LookupMeasure(c)
		known = known || ok || table && m.Static
	}
	if !known {
		s.line, s.col = 1, 1
		s.fail("no column of veristat has a measure: is it a comparison? (veristat -o csv, without -C)")
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.csv(err)
		}
		s.veristat(r, columns, row)
	}
}

func (s *source) veristat(r *csv.Reader, columns, row []string) {
	var file string
	p := bench.ProgramResult{Outcome: bench.Accepted}
	s.line, s.col = r.FieldPos(0)
	for i, c := range columns {
		switch c {
		case "file_name":
			file = clean(path.Base(row[i]))
		case "prog_name":
			p.Program = clean(row[i])
		case "prog_type":
			p.Type = clean(row[i])
		case "verdict":
			if row[i] == "failure" {
				p.Outcome, p.Reason = bench.Rejected, "veristat says failure"
			}
		}
	}
	if p.Program == "" {
		s.fail("a program without a name")
	}
	if p.Object = file; file != "" {
		p.Program = file + "/" + p.Program
	}
	s.program(p)
	if p.Outcome != bench.Accepted {
		return
	}
	for i, c := range columns {
		name, ok := veristatMeasures[c]
		if !ok {
			m, found := bench.LookupMeasure(c)
			if name = c; !found || !m.Static {
				continue
			}
		}
		if row[i] == "" || row[i] == "N/A" {
			continue
		}
		s.line, s.col = r.FieldPos(i)
		s.addResult(bench.Result{Benchmark: p.Program, Program: p.Program}, measure{name: name}, s.number(row[i]))
	}
}

func (s *source) csv(err error) {
	var p *csv.ParseError
	if errors.As(err, &p) {
		s.line, s.col, err = p.Line, p.Column, p.Err
	}
	s.broken(err)
}
