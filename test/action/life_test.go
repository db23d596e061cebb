//go:build linux

package action

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// suite is a config with one benchmark, the one in which v3 is slow, and with room
// for a busy host. Of WAIVERS the tests make some.
const suite = `version: 1
programs: {fun_xdp: {object: fun_xdp.bpf.c}}
benchmarks:
  fun_xdp/worst:
    packets: {ipv4: {src: 1.255.255.255, dst: 10.0.0.1}, udp: {sport: 12345, dport: 53}}
    drain: [SOURCE_ADDR_QUEUE]
    expect: XDP_PASS
policy:
  latency: {warn: 10%, fail: 30%}
  insns: {warn: 0, fail: 5%}
  waivers: [WAIVERS]
`

func suiteWith(waivers string) string { return strings.Replace(suite, "WAIVERS", waivers, 1) }

// accepting is a waiver; v3 costs a thousand percent of time, and ten thousand of
// instructions.
func accepting(latency string) string {
	return fmt.Sprintf("{benchmark: fun_xdp/worst, max: {latency: %s, insns: 99000%%}, until: %s, reason: the paper asks for it}", latency, time.Now().AddDate(0, 1, 0).Format(time.DateOnly))
}

// initialized has gate init write the workflows, and changes of them what GitHub has
// and this host or this forge has not: three machines, hosted ones, an image in a
// registry, privileged containers; a right to statuses of its own, a merge to check out.
func (r *runner) initialized(waivers string) {
	r.t.Helper()
	out, err := exec.Command("docker", "run", "--rm", "--network", "none", "--mount", "type=bind,source="+r.repo+",target=/w", "--workdir", "/w", os.Getenv("GATE_TEST_IMAGE"), "init").CombinedOutput()
	if err != nil {
		r.t.Fatalf("gate init: %v\n%s", err, out)
	}
	for _, name := range []string{"ebpf-bench.yml", "ebpf-bench-forks.yml"} {
		file := filepath.Join(r.repo, ".github/workflows", name)
		data, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		text := strings.NewReplacer(
			"ubuntu-22.04, ubuntu-24.04, ubuntu-24.04-arm", "ubuntu-latest",
			"mode: measure,", "mode: measure, ephemeral: true, privileges: caps, budget: 20s, image: '"+os.Getenv("GATE_TEST_IMAGE")+"',",
			"mode: report", "mode: report, github-token: '${{ secrets.BOT || github.token }}', image: '"+os.Getenv("GATE_TEST_IMAGE")+"'",
			"{contents: read, actions: read, pull-requests: write, statuses: write}", "{contents: write, actions: read, pull-requests: write}",
			"fetch-depth: 2", "fetch-depth: 0",
			"github.event.workflow_run.event == 'pull_request'", "startsWith(github.event.workflow_run.event, 'pull_request')",
		).Replace(string(data))
		r.write(".github/workflows/"+name, text)
	}
	r.write("ebpf-bench.yml", suiteWith(waivers))
}

func (r *runner) branch(name, from, file, text string) (sha string) {
	r.t.Helper()
	r.git("checkout", "--quiet", "-B", name, from)
	r.write(file, text)
	r.commit("a change of " + name)
	return r.git("rev-parse", name)
}

// artifacts are the names of a run's artifacts.
func (f *forge) artifacts(r run) (names []string) {
	f.t.Helper()
	var list struct{ Artifacts []struct{ Name string } }
	f.call("GET", fmt.Sprintf("/repos/%s/actions/runs/%d/artifacts", f.repo, r.ID), nil, &list)
	for _, a := range list.Artifacts {
		names = append(names, a.Name)
	}
	return names
}

// expect holds what a pull request shows after a run: how the job ended that reports,
// the status of the commit, and the one comment of ours.
func (f *forge) expect(what string, r run, number int, sha, name, result, status string, words ...string) comment {
	f.t.Helper()
	var ours []comment
	for _, c := range f.comments(number) {
		if c.User.Login == f.author {
			ours = append(ours, c)
		}
	}
	if j := r.jobs[name]; j.result != result || f.status(sha) != status || len(ours) != 1 {
		f.t.Fatalf("%s: %s %q, status %q, %d comments\n%s\n%s", what, name, j.result, f.status(sha), len(ours), r.jobs["measure"].log, j.log)
	}
	for _, w := range words {
		if !strings.Contains(ours[0].Body, w) {
			f.t.Errorf("%s: the comment does not say %q:\n%s", what, w, ours[0].Body)
		}
	}
	return ours[0]
}

// TestForge goes from the pull request that adds the config, by a regression and
// its cure, to a regression that is accepted.
func TestForge(t *testing.T) {
	f := newForge(t)
	r := newRunner(t)
	f.push(r, "main")

	r.git("checkout", "--quiet", "-b", "feat/größe#1")
	r.initialized("")
	if err := os.Remove(filepath.Join(r.repo, ".github/workflows/ebpf-bench-forks.yml")); err != nil { // TestFork has it
		t.Fatal(err)
	}
	r.commit("measure")
	f.push(r, "feat/größe#1")
	first := f.open("feat/größe#1")
	sha := r.git("rev-parse", "feat/größe#1")
	f.expect("the first pull request", f.finish("pull_request", sha), first, sha, "report", "success", "success", "which adds it", "no stored runs")

	stored := f.finish("push", f.merge(r, first))
	if got := strings.Join(f.artifacts(stored), " "); stored.Conclusion != "success" || !strings.Contains(got, "ebpf-bench.run.default.main.ubuntu-latest.1") || !strings.Contains(got, "ebpf-bench.history.default.main._.1") {
		t.Fatalf("a push: %s, artifacts %s\n%s", stored.Conclusion, got, stored.jobs["report"].log)
	}

	slow := r.branch("fibonacci", "main", "fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	f.push(r, "fibonacci")
	number := f.open("fibonacci")
	c := f.expect("v2 to v3", f.finish("pull_request", slow), number, slow, "report", "failure", "failure", "slower", "1 stored run on 1 testbed")
	t.Logf("the comment:\n%s", c.Body)

	cured := r.branch("fibonacci", "fibonacci", "fun_xdp.bpf.c", r.example("v2_fizzbuzz.bpf.c")+"\n/* as it was */\n")
	f.push(r, "fibonacci")
	fix := f.finish("pull_request", cured)
	now := f.expect("cured", fix, number, cured, "report", "success", "success")
	if now.ID != c.ID || now.Body == c.Body || f.status(slow) != "failure" {
		t.Errorf("cured: comment %d, was %d; status of the slow commit %q", now.ID, c.ID, f.status(slow))
	}

	// Measured again: another artifact, the same comment.
	fix = f.again(fix, "")
	if now = f.expect("re-run", fix, number, cured, "report", "success", "success"); now.ID != c.ID {
		t.Errorf("a re-run writes another comment")
	}
	if got := strings.Join(f.artifacts(fix), " "); !strings.Contains(got, ".fibonacci.ubuntu-latest.1") || !strings.Contains(got, ".fibonacci.ubuntu-latest.2") {
		t.Errorf("a re-run: artifacts %s", got)
	}

	// A pull request that has nothing to do with it, and on which somebody has
	// written our marker.
	sha = r.branch("readme", "main", "README.md", "hello")
	f.push(r, "readme")
	other := f.open("readme")
	forged := strings.Join(strings.SplitAfterN(c.Body, "\n", 2)[:1], "") + "### ✅ all is well"
	f.as("stranger").call("POST", fmt.Sprintf("/repos/%s/issues/%d/comments", f.repo, other), map[string]any{"body": forged}, nil)
	f.expect("unrelated", f.finish("pull_request", sha), other, sha, "report", "success", "success")
	for _, c := range f.comments(other) {
		if c.User.Login == "stranger" && c.Body != forged {
			t.Errorf("a stranger's comment was taken over: %s", c.Body)
		}
	}
	f.finish("push", f.merge(r, other))
	f.accepted(r)
}

// accepted is the life of a regression that is wanted: a waiver in the pull
// request, and the label of somebody who may write.
func (f *forge) accepted(r *runner) {
	f.t.Helper()
	f.bot()
	var label struct{ ID int64 }
	f.call("POST", "/repos/"+f.repo+"/labels", map[string]any{"name": "perf-accepted", "color": "#00ff00"}, &label)

	r.branch("wanted", "main", "fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	sha := r.branch("wanted", "wanted", "ebpf-bench.yml", suiteWith(accepting("100%")))
	f.push(r, "wanted")
	number := f.open("wanted")
	labels := fmt.Sprintf("/repos/%s/issues/%d/labels", f.repo, number)
	last := f.finish("pull_request", sha)
	f.expect("a waiver without the label", last, number, sha, "report", "failure", "failure", "do not count", "perf-accepted")

	f.call("POST", labels, map[string]any{"labels": []int64{label.ID}}, nil)
	last = f.again(last, "report")
	f.expect("a waiver of less than it costs", last, number, sha, "report", "failure", "failure", "octo set the label", "beyond the +100%")

	// The label is older than the next push, and no word about it.
	sha = r.branch("wanted", "wanted", "ebpf-bench.yml", suiteWith(accepting("9900%")))
	f.push(r, "wanted")
	last = f.finish("pull_request", sha)
	f.expect("a label before the push", last, number, sha, "report", "failure", "failure", "do not count")

	f.call("DELETE", fmt.Sprintf("%s/%d", labels, label.ID), nil, nil)
	f.call("POST", labels, map[string]any{"labels": []int64{label.ID}}, nil)
	last = f.again(last, "report")
	f.expect("accepted", last, number, sha, "report", "success", "success", "octo set the label")

	if pushed := f.finish("push", f.merge(r, number)); pushed.Conclusion != "success" {
		f.t.Fatalf("the push of an accepted regression: %s\n%s", pushed.Conclusion, pushed.jobs["report"].log)
	}
	sha = r.branch("after", "main", "README.md", "after")
	f.push(r, "after")
	after := f.open("after")
	f.expect("after an accepted regression", f.finish("pull_request", sha), after, sha, "report", "success", "success", "3 stored runs on 1 testbed")
}

// documented is a workflow of docs/action.md, with what this host and this forge need.
func documented(t *testing.T, heading string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/action.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), heading+"\n")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	workflow, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(workflow, "- uses: org/ebpf-bench-gate@v1\n") {
		t.Fatalf("docs/action.md shows %q", workflow)
	}
	image := "image: '" + os.Getenv("GATE_TEST_IMAGE") + "'"
	const uses = "- uses: org/ebpf-bench-gate@v1\n"
	return strings.NewReplacer(
		"{contents: read, actions: read, pull-requests: write, statuses: write}", "{contents: write, actions: read, pull-requests: write}",
		"{statuses: write}", "{contents: write}",
		"fetch-depth: 2", "fetch-depth: 0",
		"mode: measure", "mode: measure, privileges: caps, budget: 20s, "+image, "mode: report", "mode: report, "+image, "mode: start", "mode: start, "+image,
		uses+"        with:", uses+"        with:", // has inputs already; the first that fits counts
		uses, uses+"        with: {privileges: caps, budget: 20s, "+image+"}\n",
	).Replace(workflow)
}

// TestForgeStart has the workflow of three jobs: the status is pending before anything
// is measured, and the verdict follows. The annotation stands at the changed line.
func TestForgeStart(t *testing.T) {
	f := newForge(t)
	r := newRunner(t)
	f.push(r, "main")
	r.git("checkout", "--quiet", "-b", "slow")
	// Where no runs are kept, those of one job still reach the report of another.
	r.write(".github/workflows/ebpf-bench.yml", strings.NewReplacer("mode: measure,", "mode: measure, store: none,", "mode: report,", "mode: report, store: none,").Replace(documented(t, "### Pending from the start")))
	r.write("ebpf-bench.yml", suiteWith(""))
	r.write("fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	r.commit("slow")
	sha := r.git("rev-parse", "slow")
	f.push(r, "slow")
	number := f.open("slow")
	started := func() (is job) {
		for _, jobs := range f.ran {
			if _, reported := jobs["report"]; reported {
				t.Fatal("reported before it was started")
			}
			is = jobs["start"]
		}
		return is
	}
	f.eventually("start", func() bool { return f.serve() && started().result != "" })
	if j := started(); j.result != "success" || f.status(sha) != "pending" {
		t.Fatalf("start: %s, status %q\n%s", j.result, f.status(sha), j.log)
	}
	run := f.finish("pull_request", sha)
	if c := f.expect("v2 to v3", run, number, sha, "report", "failure", "failure", "slower"); strings.Contains(c.Body, "baseline") {
		t.Errorf("a baseline where none is kept:\n%s", c.Body)
	}
	at := regexp.MustCompile(`::error file=fun_xdp\.bpf\.c,line=(\d+),title=fun_xdp/worst regressed::.*because of: (.*?)(?: \(\d+%25 of head's time\))?\n`).FindStringSubmatch(run.jobs["report"].log)
	if at == nil {
		t.Fatalf("no annotation at a changed line:\n%s", run.jobs["report"].log)
	}
	n, _ := strconv.Atoi(at[1])
	line := strings.Split(r.example("v3_fibonacci.bpf.c"), "\n")[n-1]
	if strings.TrimSpace(line) != strings.TrimSpace(at[2]) || strings.Contains(r.example("v2_fizzbuzz.bpf.c"), line) {
		t.Errorf("the annotation is at line %d, %q: %q", n, line, at[2])
	}
}

// TestForgeOneJob has the workflow of one job, as docs/action.md shows it, and a
// server that GitHub's client for artifacts refuses to upload to: the verdict does
// not need one.
func TestForgeOneJob(t *testing.T) {
	f := newForge(t)
	f.upload = "GATE_TEST_UPLOAD="
	r := newRunner(t)
	r.write(".github/workflows/ebpf-bench.yml", documented(t, "### One job"))
	r.write("ebpf-bench.yml", suiteWith(""))
	r.commit("measure")
	f.push(r, "main")
	pushed := f.finish("push", r.git("rev-parse", "main"))
	if log := pushed.jobs["bench"].log; pushed.Conclusion != "success" || len(f.artifacts(pushed)) > 0 || !strings.Contains(log, "not currently supported on GHES") {
		t.Fatalf("a push: %s\n%s", pushed.Conclusion, log)
	}

	slow := r.branch("slow/ü", "main", "fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	f.push(r, "slow/ü")
	number := f.open("slow/ü")
	f.expect("v2 to v3", f.finish("pull_request", slow), number, slow, "bench", "failure", "failure", "slower", "no stored runs")
	var all []struct{ Status, Context, Description string }
	f.call("GET", "/repos/"+f.repo+"/commits/"+slow+"/statuses?sort=oldest&limit=50", nil, &all)
	pending := false
	for _, s := range all {
		pending = pending || s.Context == "ebpf-bench/default" && s.Status == "pending" && s.Description == "being measured"
	}
	if !pending {
		t.Errorf("the status was not pending while it measured: %v", all)
	}

	// Runs that are kept in a store need no upload: now there is a history.
	stored := filepath.Join(t.TempDir(), "runs")
	workflow, err := os.ReadFile(filepath.Join(r.repo, ".github/workflows/ebpf-bench.yml"))
	if err != nil {
		t.Fatal(err)
	}
	kept := r.branch("main", "main", ".github/workflows/ebpf-bench.yml", strings.Replace(string(workflow), "privileges: caps", "store: 'file://"+stored+"', privileges: caps", 1))
	f.push(r, "main")
	if pushed := f.finish("push", kept); pushed.Conclusion != "success" || len(f.artifacts(pushed)) > 0 {
		t.Fatalf("a push into a store: %s\n%s", pushed.Conclusion, pushed.jobs["bench"].log)
	}
	sha := r.branch("readme", "main", "README.md", "hello")
	f.push(r, "readme")
	number = f.open("readme")
	f.expect("with a store", f.finish("pull_request", sha), number, sha, "bench", "success", "success", "1 stored run on 1 testbed, up to "+kept[:7])
}
