package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// joined makes one measurement of those of several suites.
func joined(names []string, parts ...*store.Bundle) *store.Bundle {
	var base, head []*bench.Run
	for _, p := range parts {
		base, head = append(base, p.Base), append(head, p.Head)
	}
	return &store.Bundle{Base: bench.JoinSuites(names, base), Head: bench.JoinSuites(names, head)}
}

// severalSuites is a scene of two configs, fw and lb, of which lb is slower by a tenth.
func severalSuites(t *testing.T) *scene {
	s := newScene(t)
	s.flags.config = "*/ebpf-bench.yml"
	for _, commit := range []string{sha(10), sha(20)} {
		delete(s.server.Files, commit+":ebpf-bench.yml")
		s.server.Files[commit+":lb/ebpf-bench.yml"] = "version: 1\nbenchmarks:\n  fun_xdp/worst: {}\npolicy: {latency: {fail: 5%}}\n"
		s.server.Files[commit+":fw/ebpf-bench.yml"] = "version: 1\nbenchmarks: {fun_xdp/worst: {}}\npolicy: {latency: {fail: 50%}}\n"
	}
	s.runs(500, "feat/x", joined([]string{"fw", "lb"}, measured("a", "t1", "fun_xdp/worst", 100, 110), measured("a", "t1", "fun_xdp/worst", 100, 110)))
	return s
}

// Several configs make one report, one comment and one status; each is judged by its
// own policy of base.
func TestReportSuites(t *testing.T) {
	s := severalSuites(t)
	s.server.Files[sha(20)+":lb/ebpf-bench.yml"] = "version: 1\nbenchmarks:\n\n  fun_xdp/worst: {}\npolicy: {latency: {fail: 500%}}\n"
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	if len(s.server.Comments) != 1 || len(s.server.Statuses) != 2 || s.lastStatus().State != "failure" || s.outputs()["regressions"] != "1" {
		t.Errorf("%d comments, %+v, %v", len(s.server.Comments), s.server.Statuses, s.outputs())
	}
	body := s.server.Comments[0].Body
	for _, want := range []string{
		"### ❌ Regressed: lb:&#8203;fun&#95;xdp/worst is ", "|✅|<code>fw:fun&#95;xdp/worst</code>",
		"--config '*/ebpf-bench.yml' --only lb:fun_xdp/worst</code>", "in <code>lb/ebpf-bench.yml</code>", "- {benchmark: fun_xdp/worst, max: {latency: ",
		"head loosens the fail limit of latency", "policy from main",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if want := "::error file=lb/ebpf-bench.yml,line=4,title=lb%3Afun_xdp/worst regressed::"; !strings.Contains(s.out.String(), want) {
		t.Errorf("no %q in\n%s", want, &s.out)
	}
}

// What base asks for cannot be left out, suite or benchmark, unless somebody who may
// write accepts that; and a measurement of another config is none.
func TestReportSuitesFailClosed(t *testing.T) {
	pass := measured("a", "t1", "fun_xdp/worst", 100, 100)
	for name, change := range map[string]func(*scene){
		"a suite": func(s *scene) {
			delete(s.server.Files, sha(20)+":fw/ebpf-bench.yml")
			s.runs(500, "feat/x", joined([]string{"lb"}, pass))
		},
		"a suite without benchmarks": func(s *scene) {
			s.server.Files[sha(10)+":fw/ebpf-bench.yml"] = "version: 1\nprograms: {p: {object: o.o}}\n"
			delete(s.server.Files, sha(20)+":fw/ebpf-bench.yml")
			s.runs(500, "feat/x", joined([]string{"lb"}, pass))
		},
		"a benchmark": func(s *scene) {
			s.server.Files[sha(10)+":fw/ebpf-bench.yml"] = strings.Replace(s.server.Files[sha(10)+":fw/ebpf-bench.yml"], "{fun_xdp", "{fun_xdp/gone: {}, fun_xdp", 1)
			s.runs(500, "feat/x", joined([]string{"fw", "lb"}, pass, pass))
		},
	} {
		s := severalSuites(t)
		s.server.Artifacts = nil
		change(s)
		if code := s.report(); code != exitUnmeasured || s.lastStatus().State != "error" {
			t.Errorf("%s: exit %d, %+v\n%s", name, code, s.lastStatus(), &s.log)
		}
		s.server.Permissions = map[string]string{"boss": "write"}
		s.server.Events = []githubtest.IssueEvent{{Pull: 7, Event: "labeled", Label: "perf-accepted", Actor: "boss", Created: time.Now()}}
		if code := s.report(); code != exitPass {
			t.Errorf("%s, accepted: exit %d, %+v\n%s", name, code, s.lastStatus(), s.server.Comments[0].Body)
		}
	}
	s := severalSuites(t)
	s.server.Artifacts = nil
	s.runs(500, "feat/x", pass)
	if code := s.report(); code != exitUnmeasured || !strings.Contains(s.server.Comments[0].Body, "of another config") {
		t.Errorf("of one suite: exit %d\n%s", code, s.server.Comments[0].Body)
	}
	s = newScene(t)
	s.runs(500, "feat/x", joined([]string{"lb"}, pass))
	if code := s.report(); code != exitUnmeasured || !strings.Contains(s.server.Comments[0].Body, "of another config") {
		t.Errorf("of several: exit %d\n%s", code, s.server.Comments[0].Body)
	}
}

// A suite that head adds is told; a fork's brings no policy of its own.
func TestReportNewSuite(t *testing.T) {
	for _, fork := range []bool{false, true} {
		s := severalSuites(t)
		s.server.Artifacts = nil
		s.server.Files[sha(20)+":new/ebpf-bench.yml"] = "version: 1\nbenchmarks: {fun_xdp/worst: {}}\npolicy: {insns: {max: 1}}\n"
		b := joined([]string{"fw", "lb", "new"}, measured("a", "t1", "fun_xdp/worst", 100, 100), measured("a", "t1", "fun_xdp/worst", 100, 100), measured("a", "t1", "fun_xdp/worst", 100, 100))
		b.Base = joined([]string{"fw", "lb"}, measured("a", "t1", "fun_xdp/worst", 100, 100), measured("a", "t1", "fun_xdp/worst", 100, 100)).Base
		s.runs(500, "feat/x", b)
		want := "which adds it"
		if fork {
			s.fork()
			want = "main has no new/ebpf-bench.yml: judged by the built-in policy"
		}
		code := s.report()
		if body := s.server.Comments[0].Body; code != exitPass || !strings.Contains(strings.ReplaceAll(body, "&#8203;", ""), want) || !strings.Contains(body, "new:fun&#95;xdp/worst") {
			t.Errorf("fork %v: exit %d\n%s", fork, code, body)
		}
	}
}

// What base asks for is there where a part of it is: an agent's benchmark has a result
// for each of its programs.
func TestMissingOfAgents(t *testing.T) {
	s := &policySource{suites: map[string]*suitePolicy{"": {benchmarks: []string{"tracer/exec", "tracer/ex", "prog/x"}}}}
	head := &bench.Run{Results: []bench.Result{{Benchmark: "tracer/exec/on_exec"}, {Benchmark: "prog/x"}}}
	if got := s.missing(head); !slices.Equal(got, []string{"tracer/ex"}) {
		t.Errorf("missing %v", got)
	}
}
