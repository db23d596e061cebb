package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/internal/config"
)

func runInit(t *testing.T, files map[string]string) (code int, out string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var b bytes.Buffer
	code = Command{Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b}.Main([]string{"gate", "init"})
	return code, b.String()
}

func TestInit(t *testing.T) {
	code, out := runInit(t, map[string]string{
		"bpf/lb.bpf.c":         "SEC(\"xdp\")\nint lb(struct xdp_md *ctx) { return 2; }\nSEC(\"kprobe/x\") int BPF_KPROBE(probe, int a) { return 0; }\n",
		"old/lb.bpf.c":         "SEC(\"xdp.frags\") int lb(struct xdp_md *ctx) {}\nSEC(\"tc\")\nint out(struct __sk_buff *s) {}",
		"a b/\"q\".bpf.c":      "SEC(\"?tc/x\") int odd(void *c) {}",
		"node_modules/x.bpf.c": "SEC(\"xdp\") int no(void *c) {}",
		"junk.o":               "not an object",
	})
	if code != 0 || !strings.Contains(out, "default branch") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	s, err := config.Load(config.FileName)
	if err != nil {
		text, _ := os.ReadFile(config.FileName)
		t.Fatalf("%v\n%s", err, text)
	}
	var programs, benchmarks []string
	for _, p := range s.Programs {
		programs = append(programs, p.Name+"="+p.Object)
	}
	for _, b := range s.Benchmarks {
		benchmarks = append(benchmarks, b.Name)
	}
	if got := strings.Join(programs, " "); got != `odd=a b/"q".bpf.c lb=bpf/lb.bpf.c probe=bpf/lb.bpf.c out=old/lb.bpf.c` {
		t.Errorf("programs: %s", got)
	}
	if got := strings.Join(benchmarks, " "); got != "odd/builtin lb/builtin out/builtin" {
		t.Errorf("benchmarks: %s", got)
	}

	// Again, and nothing changes.
	if err := os.WriteFile(config.FileName, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if code := (Command{Stdout: &b, Stderr: &b}).Main([]string{"gate", "init"}); code != 0 || strings.Count(b.String(), "left as it is") != 3 {
		t.Errorf("again: exit %d\n%s", code, b.String())
	}
	if text, _ := os.ReadFile(config.FileName); string(text) != "mine" {
		t.Error("a file that was there is changed")
	}
}

// What is offered as the outputs of a build are the objects that were found.
func TestInitOutputs(t *testing.T) {
	text := configFor([]foundProgram{{"a", "bpf/a_${arch}_bpfel.o", "xdp"}, {"b", "bpf/b.o", "xdp"}, {"c", "c.o", "xdp"}, {"d", "d.bpf.c", "xdp"}, {"e", "x\"\n/e.o", "xdp"}, {"a", "old/a.o", "xdp"}})
	if want := "\n# build: {run: make, outputs: [\"bpf/*.o\", \"*.o\"]}\n"; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
	if text := configFor([]foundProgram{{"d", "d.bpf.c", "xdp"}}); strings.Contains(text, "build") {
		t.Errorf("nothing is to be built:\n%s", text)
	}
}

// The default branch is the remote's, else the one that looks like it.
func TestDefaultBranch(t *testing.T) {
	for commands, want := range map[string]string{
		"":                         "main",
		"init -q -b trunk":         "trunk", // nothing is committed yet
		"init -q -b master;commit": "master",
		"init -q -b master;commit;checkout -qb feat": "master",
		"init -q -b feat;commit":                     "main",
		"init -q -b master;commit;branch main":       "main",
		"init -q -b master;commit;update-ref refs/remotes/origin/dev HEAD;symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/dev": "dev",
	} {
		t.Chdir(t.TempDir())
		for command := range strings.SplitSeq(commands, ";") {
			args := strings.Fields(command)
			if command == "commit" {
				args = []string{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "x"}
			}
			if len(args) == 0 {
				continue
			}
			if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		if got := defaultBranch(); got != want {
			t.Errorf("%s: %s, want %s", commands, got, want)
		}
	}
}

func TestInitNothing(t *testing.T) {
	if code, out := runInit(t, map[string]string{"main.c": "int main;"}); code != exitUsage || !strings.Contains(out, "no eBPF programs") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestInitWorkflows holds that init writes what the documents show, which
// actionlint looks at.
func TestInitWorkflows(t *testing.T) {
	doc, err := os.ReadFile("../../docs/action.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{strings.Replace(workflowMeasure, "BRANCH", "main", 1), workflowForks} {
		if !strings.Contains(string(doc), "```yaml\n"+w+"```") {
			t.Errorf("docs/action.md does not show\n%s", w)
		}
	}
}

// TestSections holds what is taken for a program of packets to how libbpf reads sections.
func TestSections(t *testing.T) {
	for section, want := range map[string]bool{
		"xdp": true, "xdp.frags": true, "xdp_fwd": true, "?tc": true, "tc_ingress": true, "tcx/egress": true, "classifier/x": true,
		"cgroup_skb/egress": true, "cgroup/skb": true, "lwt_xmit": true, "cgroup/connect4": false, "sockops": false,
		"kprobe/tcp_sendmsg": false, "tracepoint/skb/kfree_skb": false, "struct_ops/init": false,
	} {
		if got := testRunnable.MatchString(section); got != want {
			t.Errorf("%s: %v", section, got)
		}
	}
}

// TestTargets has a project's objects of bpf2go stand in the config once, for every architecture.
func TestTargets(t *testing.T) {
	for name, want := range map[string]string{
		"bpf_bpfel.o": "bpf_bpfel.o", "bpf_x86_bpfel.o": "bpf_${arch}_bpfel.o", "bpf_arm64_bpfel.o": "bpf_${arch}_bpfel.o",
		"bpf_bpfeb.o": "", "bpf_s390_bpfeb.o": "", "bpf_powerpc_bpfel.o": "", "lwt_arm.o": "lwt_arm.o",
	} {
		if got := objectName(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
