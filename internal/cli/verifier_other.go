//go:build !linux

package cli

import (
	"context"
	"errors"

	"github.com/org/ebpf-bench-gate/internal/verifier"
)

// verify reads saved rows: loading needs Linux.
func (c Command) verify(_ context.Context, f *verifierFlags, q *verifier.Query, base, head []string) (b, h *verified, err error) {
	b, baseRest, err := readSaved(base, q)
	if err != nil {
		return nil, nil, err
	}
	h, headRest, err := readSaved(head, q)
	if err != nil {
		return nil, nil, err
	}
	if len(baseRest)+len(headRest) > 0 || len(head) == 0 || f.config != "" {
		return nil, nil, &exitError{code: exitUnmeasured, err: errors.New("loading programs needs Linux"), hint: "gate verifier compares saved CSV on any system"}
	}
	if len(base) == 0 {
		b = nil
	}
	return b, h, nil
}
