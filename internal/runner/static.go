//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// static loads every program of every side once.
func (r *run) static(ctx context.Context) error {
	var wrong mistakes
	for i := range r.Sides {
		side, out := &r.Sides[i], r.runs[i]
		for _, o := range side.Objects {
			for _, name := range o.Programs() {
				if err := ctx.Err(); err != nil {
					return err
				}
				r.begin(fmt.Sprintf("load %s of %s", name, side.Name))
				res := bench.ProgramResult{Program: name, Object: o.Name, Type: o.Type(name), Outcome: bench.Accepted, Digest: o.Digest(name)}
				l, err := r.session.Load(o.Object, name)
				if lost := (*bpf.NoTarget)(nil); errors.As(err, &lost) {
					wrong.add(lost.Diagnostic)
					continue
				}
				if err != nil {
					res = bpf.Diagnose(o.Name, name, o.Type(name), err)
					res.LogPath = r.saveLog(side.Name, name, err)
					out.Programs = append(out.Programs, res)
					continue
				}
				results, err := bpf.Static(l)
				if err == nil {
					res.Functions, err = bpf.Functions(l)
				}
				l.Close()
				out.Programs = append(out.Programs, res)
				if err != nil {
					out.Warnings = append(out.Warnings, fmt.Sprintf("%s: %v", name, err))
				}
				out.Results = append(out.Results, results...)
			}
		}
	}
	return wrong.err()
}

// saveLog writes the verifier's whole log and returns its file, or "".
func (r *run) saveLog(side, program string, err error) string {
	log := bpf.VerifierLog(err)
	if r.SaveLog == nil || log == "" {
		return ""
	}
	file, err := r.SaveLog(fmt.Sprintf("%s-%s-%s", r.Time.UTC().Format("20060102t150405"), side, program), log)
	if err != nil {
		return "" // the end of the log is in the report
	}
	return file
}
