package verifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/org/ebpf-bench-gate/bench"
)

// Limits of a file of rows, which may come from anybody.
const (
	maxFile = 64 << 20 // bytes
	maxRows = 1_000_000
	maxName = 1024
)

// IsSaved tells by its name whether a file holds rows, and no programs.
func IsSaved(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".csv" || ext == ".json"
}

// ReadFile reads the rows of a file that veristat or gate verifier wrote: CSV, or
// gate's JSON of one side.
func ReadFile(name string) ([]Row, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case st.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, at most %d", name, st.Size(), maxFile)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	rows, err := Read(b)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	return rows, nil
}

// Read reads rows as [ReadFile] does. Errors begin with the number of the line, where
// there is one.
func Read(b []byte) ([]Row, error) {
	if !utf8.Valid(b) {
		return nil, errors.New(" not UTF-8")
	}
	if t := bytes.TrimSpace(b); len(t) > 0 && t[0] == '[' {
		return readJSON(t)
	}
	return readCSV(string(b))
}

// readCSV reads CSV as veristat writes it: without quotes.
func readCSV(text string) ([]Row, error) {
	var header []*Stat
	var rows []Row
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		cells := strings.Split(line, ",")
		if header == nil {
			for _, name := range cells {
				s := lookup(strings.TrimSpace(name))
				if s == nil {
					hint := ""
					if strings.HasSuffix(name, "_base") || strings.HasSuffix(name, "_comp") || strings.HasSuffix(name, "_diff") {
						hint = "; this is the CSV of a comparison, which compares no further"
					}
					return nil, fmt.Errorf("%d: unknown column %.40q%s", n, name, hint)
				}
				header = append(header, s)
			}
			continue
		}
		if len(cells) != len(header) {
			return nil, fmt.Errorf("%d: %d columns, the header has %d", n, len(cells), len(header))
		}
		var r Row
		for i, cell := range cells {
			if err := r.set(header[i], cell); err != nil {
				return nil, fmt.Errorf("%d: %w", n, err)
			}
		}
		if err := r.named(); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if rows = append(rows, r); len(rows) > maxRows {
			return nil, fmt.Errorf("%d: more than %d rows", n, maxRows)
		}
	}
	if header == nil {
		return nil, errors.New(" empty, not CSV of veristat or gate verifier")
	}
	return rows, nil
}

func (r *Row) named() error {
	switch {
	case r.File == "" || r.Program == "":
		return fmt.Errorf("a row needs a %s and a %s", statFile, statProgram)
	case len(r.File) > maxName || len(r.Program) > maxName:
		return fmt.Errorf("a name has more than %d bytes", maxName)
	}
	return nil
}

// readJSON reads what WriteJSON wrote of one side.
func readJSON(b []byte) ([]Row, error) {
	var list []struct {
		File      string          `json:"file_name"`
		Program   string          `json:"prog_name"`
		Verdict   string          `json:"verdict"`
		Type      string          `json:"prog_type"`
		Attach    string          `json:"attach_type"`
		Reason    string          `json:"reason"`
		Outcome   bench.Outcome   `json:"outcome"`
		Base      json.RawMessage `json:"base"`
		Head      json.RawMessage `json:"head"`
		Functions []bench.Function
	}
	var numbers []map[string]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf(" not JSON of gate verifier: %w", err)
	}
	if err := json.Unmarshal(b, &numbers); err != nil {
		return nil, fmt.Errorf(" not JSON of gate verifier: %w", err)
	}
	if len(list) > maxRows {
		return nil, fmt.Errorf(" more than %d rows", maxRows)
	}
	rows := make([]Row, len(list))
	for i, l := range list {
		if l.Base != nil || l.Head != nil {
			return nil, errors.New(" this is the JSON of a comparison, which compares no further")
		}
		r := &rows[i]
		*r = Row{File: l.File, Program: l.Program, Type: l.Type, AttachType: l.Attach, Reason: l.Reason, Outcome: l.Outcome, Functions: l.Functions}
		err := r.named()
		if err == nil {
			err = r.set(lookup(statVerdict), l.Verdict)
		}
		for j := range stats {
			s := &stats[j]
			raw, ok := numbers[i][s.Name()]
			if !ok || s.text || s.Name() == statVerdict || s.Name() == statUsed {
				continue
			}
			if err == nil {
				err = r.set(s, string(raw))
			}
		}
		if err != nil {
			return nil, fmt.Errorf(" row %d: %w", i+1, err)
		}
	}
	return rows, nil
}
