package action

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout is a repository with two commits, in which the build makes the objects.
func checkout(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--initial-branch=main")
	put(t, dir, "version", "one")
	git("add", ".")
	git("commit", "--quiet", "--message", "one")
	put(t, dir, "version", "two")
	put(t, dir, "ebpf-bench.yml", `version: 1
build: {run: "mkdir -p out && cat version >out/a.o", outputs: [out/a.o]}
programs: {p: {object: out/a.o}}
benchmarks: {p/a: {}}
`)
	git("add", ".")
	git("commit", "--quiet", "--message", "two")
	return dir, git
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// entered are the files below a directory.
func entered(stage string) string {
	var files []string
	_ = filepath.WalkDir(stage, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(stage, path)
			files = append(files, rel)
		}
		return err
	})
	return strings.Join(files, " ")
}

// TestStageCommands stages what commands of user space run, each side's own, and refuses
// those that would have nothing to run.
func TestStageCommands(t *testing.T) {
	dir, git := checkout(t)
	put(t, dir, "ebpf-bench.yml", "version: 1\nbuild: {run: cp version bench.test, outputs: [bench.test]}\ncommands: {tool: {run: ./bench.test}}\n")
	git("add", ".")
	git("commit", "--quiet", "--message", "three")
	put(t, dir, "version", "three")
	stage := t.TempDir()
	in := Inputs{Workspace: dir, Config: "ebpf-bench.yml", Base: "HEAD"}
	if _, err := Stage(t.Context(), in, Event{}, stage); err != nil {
		t.Fatal(err)
	}
	for side, want := range map[string]string{"base": "two", "head": "three"} {
		if got, err := os.ReadFile(filepath.Join(stage, "0", side, "bench.test")); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", side, got, err, want)
		}
	}
	put(t, dir, "ebpf-bench.yml", "version: 1\ncommands: {tool: {run: go test -bench .}}\n")
	if _, err := Stage(t.Context(), in, Event{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "ebpf-bench.yml:2:12: command tool has nothing to run") {
		t.Errorf("without outputs: %v", err)
	}
}

// TestStageSeveral stages two suites from one checkout of base, each with its own
// policy of base, and one that base does not have.
func TestStageSeveral(t *testing.T) {
	dir, git := checkout(t)
	config := func(at, fail string) {
		put(t, dir, at+"/ebpf-bench.yml", "version: 1\nbuild: {run: cp ../version a.o, outputs: [a.o]}\nprograms: {p: {object: a.o}}\nbenchmarks: {p/a: {}}\npolicy: {latency: {fail: "+fail+"}}\n")
	}
	config("lb", "1%")
	config("x/fw", "2%")
	git("add", ".")
	git("commit", "--quiet", "--message", "three")
	config("lb", "100%")
	config("new", "100%")
	put(t, dir, "version", "three")
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	stage := t.TempDir()
	plan, err := Stage(t.Context(), Inputs{Workspace: dir, Config: "*/ebpf-bench.yml", Base: "HEAD"}, Event{}, stage)
	if err != nil {
		t.Fatal(err)
	}
	if got := entered(stage); got != "0/base/0.o 0/base/ebpf-bench.yml 0/head/0.o 0/head/ebpf-bench.yml 1/head/0.o 1/head/ebpf-bench.yml plan.json" {
		t.Errorf("entered: %s", got)
	}
	for name, want := range map[string]string{"0/base/0.o": "two", "0/head/0.o": "three", "1/head/0.o": "three"} {
		if got, _ := os.ReadFile(filepath.Join(stage, name)); string(got) != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if policy, _ := os.ReadFile(filepath.Join(stage, plan.Suites[0].Policy)); !strings.Contains(string(policy), "fail: 1%") {
		t.Errorf("the policy is not base's: %s", policy)
	}
	lb, fresh := plan.Suites[0], plan.Suites[1]
	if lb.Name != "lb" || lb.Dir != "lb" || fresh.Name != "new" || fresh.Base != nil || fresh.Policy != "" || !strings.Contains(strings.Join(fresh.Warnings, ""), "new: base has no") ||
		plan.Base.Commit != git("rev-parse", "HEAD") {
		t.Errorf("%+v", plan)
	}
	if git("worktree", "list", "--porcelain"); strings.Count(git("worktree", "list"), "\n") != 0 {
		t.Errorf("left behind: %s", git("worktree", "list"))
	}

	outside := t.TempDir()
	put(t, outside, "ebpf-bench.yml", "version: 1\nprograms: {p: {object: a.o}}\nbenchmarks: {p/a: {}}\n")
	put(t, outside, "a.o", "secret")
	if err := os.Symlink(outside, filepath.Join(dir, "evil")); err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{"*/ebpf-bench.yml", "evil/ebpf-bench.yml"} {
		if _, err := Stage(t.Context(), Inputs{Workspace: dir, Config: config}, Event{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "leads out of the checkout") {
			t.Errorf("%s: a link out of the checkout: %v", config, err)
		}
	}
	if _, err := Stage(t.Context(), Inputs{Workspace: dir, Config: "*/none.yml"}, Event{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no */none.yml") {
		t.Errorf("%v", err)
	}
}

// What commands of benchmarks run is staged, too, as it is called and as it may be run.
func TestStageTools(t *testing.T) {
	dir, git := checkout(t)
	config := func(work string) {
		put(t, dir, "ebpf-bench.yml", `version: 1
build: {run: "mkdir -p bin; cp version bin/p.o; echo run >bin/tool; chmod 755 bin/tool; echo text >bin/data", outputs: ["bin/*"]}
programs: {p: {object: bin/p.o}}
benchmarks: {p/a: {`+work+`}}
`)
	}
	for work, want := range map[string]string{
		"work: {run: bin/tool}": "0/head/0.o 0/head/bin/data 0/head/bin/tool 0/head/ebpf-bench.yml plan.json",
		"work: {duration: 1s}":  "0/head/0.o 0/head/ebpf-bench.yml plan.json",
		"":                      "0/head/0.o 0/head/ebpf-bench.yml plan.json",
	} {
		config(work)
		git("add", "ebpf-bench.yml")
		stage := t.TempDir()
		if _, err := Stage(t.Context(), Inputs{Workspace: dir, Config: "ebpf-bench.yml"}, Event{}, stage); err != nil {
			t.Fatal(err)
		}
		if got := entered(stage); got != want {
			t.Errorf("%s: entered: %s, want %s", work, got, want)
		}
		if tool, err := os.Stat(filepath.Join(stage, "0/head/bin/tool")); strings.Contains(work, "run") && (err != nil || tool.Mode().Perm() != 0o755) {
			t.Errorf("%v, %v", tool, err)
		}
	}
	// A link out of the checkout is nothing to run there.
	config("work: {run: bin/tool}")
	if err := os.RemoveAll(filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "ebpf-bench.yml", `version: 1
build: {run: "mkdir -p bin; ln -sf /etc/passwd bin/tool", outputs: ["bin/*"]}
programs: {p: {object: version}}
benchmarks: {p/a: {work: {run: bin/tool}}}
`)
	if _, err := Stage(t.Context(), Inputs{Workspace: dir, Config: "ebpf-bench.yml"}, Event{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "out of the") {
		t.Errorf("error %v", err)
	}
}

// Agents and loaders are each side's own, with the objects that they read.
func TestStageAgents(t *testing.T) {
	dir, git := checkout(t)
	put(t, dir, "ebpf-bench.yml", `version: 1
build: {run: "mkdir -p bin; cp version bin/p.o; echo run >bin/agent; chmod 755 bin/agent", outputs: ["bin/*", start.sh]}
agents: {a: {run: ./start.sh}}
benchmarks: {a/b: {work: {duration: 1s}}}
`)
	put(t, dir, "start.sh", "exec bin/agent\n")
	git("add", "ebpf-bench.yml", "start.sh")
	git("commit", "-qm", "an agent")
	put(t, dir, "start.sh", "exec bin/agent --more\n")
	stage := t.TempDir()
	plan, err := Stage(t.Context(), Inputs{Workspace: dir, Config: "ebpf-bench.yml", Base: "HEAD"}, Event{}, stage)
	if err != nil {
		t.Fatal(err)
	}
	const want = "0/base/bin/agent 0/base/bin/p.o 0/base/ebpf-bench.yml 0/base/start.sh 0/head/bin/agent 0/head/bin/p.o 0/head/ebpf-bench.yml 0/head/start.sh plan.json"
	if got := entered(stage); got != want {
		t.Errorf("entered: %s, want %s", got, want)
	}
	base, err := os.ReadFile(filepath.Join(stage, "0/base/start.sh"))
	if err != nil || string(base) != "exec bin/agent\n" {
		t.Errorf("base starts %q, %v", base, err)
	}
	if plan.Base == nil || plan.Suites[0].Base == nil {
		t.Errorf("%+v", plan)
	}
}

// TestStage builds both trees, and holds what enters the container.
func TestStage(t *testing.T) {
	dir, git := checkout(t)
	stage := t.TempDir()
	in := Inputs{Workspace: dir, Config: "ebpf-bench.yml", Base: "HEAD~1"}
	plan, err := Stage(t.Context(), in, Event{Branch: "feat/x"}, stage)
	if err != nil {
		t.Fatal(err)
	}
	if got := entered(stage); got != "0/base/0.o 0/head/0.o 0/head/ebpf-bench.yml plan.json" {
		t.Errorf("entered: %s", got)
	}
	for name, want := range map[string]string{"0/base/0.o": "one", "0/head/0.o": "two"} {
		if got, _ := os.ReadFile(filepath.Join(stage, name)); string(got) != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if plan.Head.Branch != "feat/x" || plan.Base.Commit != git("rev-parse", "HEAD~1") || len(plan.Suites) != 1 || len(plan.Suites[0].Warnings) != 1 {
		t.Errorf("%+v", plan)
	}
	if read, err := ReadPlan(stage); err != nil || read.Suites[0].Head.Objects[0] != (Object{"out/a.o", "0/head/0.o"}) || read.Suites[0].Name != "" {
		t.Errorf("%+v, %v", read, err)
	}
	if Credentials(t.Context(), dir) {
		t.Error("credentials where there are none")
	}
	git("config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic x")
	if !Credentials(t.Context(), dir) {
		t.Error("a token in .git/config is not told")
	}
	// As actions/checkout does since v6.
	git("config", "--unset", "http.https://github.com/.extraheader")
	elsewhere := filepath.Join(t.TempDir(), "credentials.config")
	put(t, filepath.Dir(elsewhere), filepath.Base(elsewhere), "[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic x\n")
	git("config", "includeIf.gitdir:"+dir+"/.git.path", elsewhere)
	if !Credentials(t.Context(), dir) {
		t.Error("a token in a file that .git/config includes is not told")
	}
	git("config", "--remove-section", "includeIf.gitdir:"+dir+"/.git")
	t.Setenv("GITHUB_OUTPUT", "x")
	t.Setenv("ACTIONS_RUNTIME_TOKEN", "x")
	if HideFromBuilds(); os.Getenv("GITHUB_OUTPUT")+os.Getenv("ACTIONS_RUNTIME_TOKEN") != "" {
		t.Error("builds see command files and tokens")
	}

	// What a hostile head would have the runner copy.
	secret := filepath.Join(t.TempDir(), "secret.pcap")
	put(t, filepath.Dir(secret), "secret.pcap", "secret")
	for _, tt := range []struct{ name, config, link string }{
		{"object", "version: 1\nprograms: {p: {object: a.o}}\nbenchmarks: {p/a: {}}\n", "a.o"},
		{"capture", "version: 1\nprograms: {p: {object: version}}\nbenchmarks: {p/a: {packets: a.pcap}}\n", "a.pcap"},
		{"config", "", "ebpf-bench.yml"},
	} {
		_ = os.Remove(filepath.Join(dir, tt.link))
		if tt.config != "" {
			put(t, dir, "ebpf-bench.yml", tt.config)
		} else {
			put(t, filepath.Dir(secret), "secret.pcap", "version: 1\nprograms: {p: {object: version}}\nbenchmarks: {p/a: {}}\n")
		}
		if err := os.Chmod(secret, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret, filepath.Join(dir, tt.link)); err != nil {
			t.Fatal(err)
		}
		stage := t.TempDir()
		_, err := Stage(t.Context(), Inputs{Workspace: dir, Config: "ebpf-bench.yml"}, Event{}, stage)
		if err == nil {
			t.Errorf("%s: a link out of the checkout was followed", tt.name)
		}
		t.Log(tt.name, err)
		_ = os.Remove(filepath.Join(dir, tt.link))
	}
}

// TestBaseRef holds what a pull request is compared with.
func TestBaseRef(t *testing.T) {
	dir, git := checkout(t)
	in := Inputs{Workspace: dir, Config: "ebpf-bench.yml"}
	base := git("rev-parse", "HEAD~1")
	for _, tt := range []struct {
		name string
		e    Event
		want string
	}{
		{"push", Event{Name: "push", Branch: "main"}, ""},
		{"head of a pull request", Event{Name: "pull_request", BaseBranch: "main", BaseCommit: base}, "merge-base:" + base},
		{"merge group", Event{Name: "merge_group", BaseBranch: "refs/heads/main", BaseCommit: base}, "merge-base:" + base},
	} {
		if got, err := baseRef(t.Context(), in, tt.e); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := baseRef(t.Context(), in, Event{Name: "pull_request", BaseBranch: "gone", BaseCommit: strings.Repeat("0", 40)}); err == nil || !strings.Contains(err.Error(), "does not hold the base") {
		t.Errorf("a shallow checkout: %v", err)
	}
	git("checkout", "--quiet", "-b", "side", "HEAD~1")
	put(t, dir, "other", "x")
	git("add", ".")
	git("commit", "--quiet", "--message", "side")
	git("checkout", "--quiet", "main")
	git("merge", "--quiet", "--no-ff", "--message", "merge", "side")
	if got, err := baseRef(t.Context(), in, Event{Name: "pull_request", BaseBranch: "main", BaseCommit: base}); got != "HEAD^1" || err != nil {
		t.Errorf("a merge: %q, %v", got, err)
	}
}
