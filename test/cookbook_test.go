package test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
)

// A recipe is what one of the cookbook's files has a CI do in the job that measures.
type recipe struct {
	shell   string   // that its runner starts the scripts with
	scripts []string // one after the other, the first that fails ends the job
	after   []string // those that run whatever became of the others
	kept    []string // files that it takes out of the job
	env     map[string]string
}

// A cookbook is the recipes by the heading that they stand under.
func cookbook(t *testing.T) map[string]recipe {
	t.Helper()
	text, err := os.ReadFile("../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	recipes := map[string]recipe{}
	heading := ""
	blocks := regexp.MustCompile("(?ms)^## ([^\n]*)$|^```(yaml|groovy)\n(.*?)^```")
	for _, m := range blocks.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			heading = m[1]
			continue
		}
		var read func(string) (recipe, error)
		switch heading {
		case "GitLab CI":
			read = gitlab
		case "Gitea and Forgejo":
			read = gitea
		case "Jenkins":
			read = jenkins
		case "Buildkite":
			read = buildkite
		default:
			t.Fatalf("nobody here knows what runs the recipe of %q", heading)
		}
		r, err := read(m[3])
		if err != nil || len(r.scripts) == 0 {
			t.Fatalf("%s: %v in\n%s", heading, err, m[3])
		}
		recipes[heading] = r
	}
	return recipes
}

// known decodes YAML, of which every key must be one that the type has.
func known(text string, to any) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(to)
}

// gitlab reads a job as GitLab's runner does: the lines of its script are joined and given
// to one shell, "set -eo pipefail" before them
// (https://docs.gitlab.com/ci/yaml/#script).
func gitlab(text string) (recipe, error) {
	var jobs map[string]struct {
		Image struct {
			Name       string
			Entrypoint []string
		}
		Tags      []string
		Variables map[string]string
		Rules     []struct{ If string }
		Script    []string
		Artifacts struct {
			When    string
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	if err := known(text, &jobs); err != nil {
		return recipe{}, err
	}
	var r recipe
	for _, j := range jobs {
		r = recipe{shell: "bash -eo pipefail", scripts: []string{strings.Join(j.Script, "\n")}, kept: append(j.Artifacts.Paths, j.Artifacts.Reports.JUnit), env: j.Variables}
		if j.Variables["GIT_DEPTH"] != "0" {
			return r, fmt.Errorf("GIT_DEPTH %q has no merge base in it", j.Variables["GIT_DEPTH"])
		}
	}
	return r, nil
}

// gitea reads a workflow as act does: each run is a script of its own
// (https://docs.github.com/actions/reference/workflow-syntax-for-github-actions).
func gitea(text string) (recipe, error) {
	var w struct {
		Name string
		On   []string
		Jobs map[string]struct {
			On    string `yaml:"runs-on"`
			Steps []struct {
				Uses, If, Run string
				With          map[string]string
			}
		}
	}
	if err := known(text, &w); err != nil {
		return recipe{}, err
	}
	r := recipe{shell: "bash -e"}
	for _, j := range w.Jobs {
		for _, s := range j.Steps {
			switch {
			case s.Run == "":
			case s.If == "always()":
				r.after = append(r.after, s.Run)
			default:
				r.scripts = append(r.scripts, s.Run)
			}
		}
	}
	return r, nil
}

// jenkins reads the steps of a Jenkinsfile: sh runs "sh -xe". Nothing here parses Groovy;
// its brackets and quotes are held to be even.
func jenkins(text string) (recipe, error) {
	r := recipe{shell: "sh -xe"}
	for _, m := range regexp.MustCompile(`(?s)sh '''(.*?)'''`).FindAllStringSubmatch(text, -1) {
		r.scripts = append(r.scripts, m[1])
	}
	for _, m := range regexp.MustCompile(`(?:junit|archiveArtifacts) '([^']*)'`).FindAllStringSubmatch(text, -1) {
		r.kept = append(r.kept, m[1])
	}
	if strings.Count(text, "{") != strings.Count(text, "}") || strings.Count(text, "'")%2 != 0 || len(r.kept) == 0 {
		return r, fmt.Errorf("brackets or quotes that do not match, or nothing kept")
	}
	return r, nil
}

// buildkite reads the steps of a pipeline: command is given to a shell
// (https://buildkite.com/docs/pipelines/configure/step-types/command-step).
func buildkite(text string) (recipe, error) {
	var p struct {
		Steps []struct {
			Label       string
			Agents      map[string]string
			Concurrency int
			Group       string `yaml:"concurrency_group"`
			Command     string
			Kept        []string `yaml:"artifact_paths"`
			SoftFail    []struct {
				Exit int `yaml:"exit_status"`
			} `yaml:"soft_fail"`
		}
	}
	if err := known(text, &p); err != nil {
		return recipe{}, err
	}
	r := recipe{shell: "bash -e"}
	for _, s := range p.Steps {
		if s.Concurrency != 1 || s.Group == "" {
			return r, fmt.Errorf("jobs on one host measure each other")
		}
		r.scripts, r.kept = append(r.scripts, s.Command), append(r.kept, s.Kept...)
	}
	return r, nil
}

// TestCookbook runs what the recipes have a CI do, with the shells that their runners use,
// in a clone as they make one. No runner of theirs is here: what becomes of the files
// is theirs, but that those which they are told to keep are there.
func TestCookbook(t *testing.T) {
	recipes := cookbook(t)
	if len(recipes) < 4 {
		t.Fatalf("%d recipes", len(recipes))
	}
	var files []string
	for heading, r := range recipes {
		name := strings.ToLower(strings.Fields(heading)[0])
		var script, scripts strings.Builder
		script.WriteString(cookbookSetup)
		for _, name := range slices.Sorted(maps.Keys(r.env)) {
			fmt.Fprintf(&script, "env %s=%s\n", name, r.env[name])
		}
		for i, text := range slices.Concat(r.scripts, r.after) {
			code := 1 // the change is slower: neither undecided nor a mistake
			if i >= len(r.scripts) {
				code = 0
			}
			fmt.Fprintf(&script, "exits %d %s $WORK/%d.sh\n", code, r.shell, i)
			fmt.Fprintf(&scripts, "-- %d.sh --\n%s\n", i, text)
		}
		if len(r.after) > 0 {
			script.WriteString("grep fun_xdp/worst $WORK/summary.md\n")
		}
		for _, k := range r.kept {
			k, _, deep := strings.Cut(k, "/**")
			if script.WriteString("exists " + k + "\n"); deep {
				fmt.Fprintf(&script, "exec sh -c 'find %s -type f | grep .'\n", k)
			}
			if strings.HasSuffix(k, ".xml") {
				fmt.Fprintf(&script, "grep '<testsuites .* failures=\"[1-9]' %s\n", k)
			}
		}
		file := filepath.Join(t.TempDir(), "cookbook_"+name+".txtar")
		if err := os.WriteFile(file, []byte(script.String()+docsFiles+scripts.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	slices.Sort(files)
	runScripts(t, testscript.Params{Files: files})
}

// cookbookSetup is a clone of a change whose target has gone on since.
const cookbookSetup = `require bpf test-run clang git
exec git init -q upstream
cd upstream
cp $WORK/ebpf-bench.yml ebpf-bench.yml
cp $EXAMPLE/fun_xdp.h fun_xdp.h
cp $EXAMPLE/v2_fizzbuzz.bpf.c prog.bpf.c
exec git add .
exec git commit -qm v2
exec git switch -qc change
cp $EXAMPLE/v3_fibonacci.bpf.c prog.bpf.c
exec git commit -qam v3
exec git switch -q main
exec git commit -q --allow-empty -m later
cd ..
exec git clone -q --branch change upstream repo
cd repo
env CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main
env GITHUB_STEP_SUMMARY=$WORK/summary.md
`
