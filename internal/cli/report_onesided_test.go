package cli

import (
	"testing"

	"github.com/org/ebpf-bench-gate/internal/store"
)

// A pull request asks for a comparison: a measurement of head alone, with little or
// nothing stored to hold it against, is not a success because it asks for none.
func TestReportOfOneSide(t *testing.T) {
	s := newScene(t)
	s.runs(500, "feat/x", &store.Bundle{Head: measured("a", "t1", "fun_xdp/worst", 100, 150).Head})
	s.flags.failOn = "inconclusive"
	if code := s.report(); code != exitInconclusive || s.lastStatus().State != "failure" || s.outputs()["verdict"] != "inconclusive" {
		t.Errorf("exit %d, %+v, %v\n%s", code, s.lastStatus(), s.outputs(), &s.log)
	}
}
