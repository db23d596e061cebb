package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/org/ebpf-bench-gate/internal/cli"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestMain(m *testing.M) {
	// The test binary is also the gate that the scripts run: the real command
	// line in a process of its own, with its own signals and exit code.
	testscript.Main(cleaning{m}, map[string]func(){
		"gate": func() {
			os.Exit(cli.Command{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(os.Args))
		},
		"agent": func() { os.Exit(testkernel.Agent()) },
	})
}

// cleaning removes what all tests share.
type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	code := c.M.Run()
	if sharedDir != "" {
		_ = os.RemoveAll(sharedDir)
	}
	return code
}

var sharedDir string

// TestScripts runs script/*.txtar. Commands beyond testscript's own:
//
//	require FEATURE...     skip, or under GATE_REQUIRE_KERNEL=1 fail, unless the
//	                       host has the features of package testkernel
//	exits CODE CMD ARG...  run a command, which must end with exactly this code; one
//	                       that could not decide is run again, see [exits]
//	measuring [WHAT]       wait until the newest background command measures: it
//	                       holds programs (or, with WHAT, such a descriptor) in a
//	                       network namespace of its own
//	ended CODE             the background command that was waited for ended so;
//	                       -1: by a signal
//	await FILE:TEXT        wait until the file contains the text
//	mkrun FILE [KEY=VALUE]... write a run file; see [mkrun]
//	repeat N CMD ARG...    run a command N times; it must succeed each time
//	ntimes N TEXT          the last standard output contains TEXT N times
//	agent [FLAG]... NAME... a tracing agent, see [testkernel.Agent]
//	shown COMMAND          a command line of a document, see [TestDocsRun]
//	kernels VERSION...     gate is a static one from here on, and the kernels are in
//	                       its cache; skip, or under GATE_REQUIRE_KERNEL=1 fail,
//	                       where they cannot be had
//	s3 [readonly]          a server of S3's protocol, whose bucket is $store
//	inbox FILE             a server at $inbox that writes what it is sent into the file
//
// The condition [root] is what it says. $EXAMPLE is a copy of examples/fun-xdp, $TOP
// this repository.
func TestScripts(t *testing.T) {
	runScripts(t, testscript.Params{Dir: "script"})
}

func runScripts(t *testing.T, p testscript.Params) {
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// The host is asked before anything looks for leaks: a probe may leave the
	// process's first thread, which Go cannot end, in a namespace of its own.
	for _, f := range testkernel.Features() {
		_ = testkernel.Probe(f)
	}
	p.Setup = func(env *testscript.Env) error {
		env.Values[theT{}] = env.T().(serial).T
		home := filepath.Join(env.WorkDir, ".home")
		env.Setenv("HOME", home)
		// The host's: a script that builds Go would compile the standard library.
		if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
			env.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
		}
		// Whatever the developer configured for git must not change a verdict.
		config := filepath.Join(home, "gitconfig")
		env.Setenv("GIT_CONFIG_GLOBAL", config)
		env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
		env.Setenv("NO_COLOR", "")
		env.Setenv("TERM", "xterm")
		env.Setenv("TOP", top)
		env.Setenv("EXAMPLE", filepath.Join(env.WorkDir, "fun-xdp"))
		if err := os.MkdirAll(home, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(config, []byte("[user]\nname = Gate Test\nemail = test@example.com\n[init]\ndefaultBranch = main\n[commit]\ngpgsign = false\n"), 0o644); err != nil {
			return err
		}
		return copySources(env.Getenv("EXAMPLE"), filepath.Join(top, "examples", "fun-xdp"))
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"require":   require,
		"exits":     exits,
		"measuring": measuring,
		"ended":     ended,
		"await":     await,
		"mkrun":     mkrun,
		"repeat":    repeat,
		"ntimes":    ntimes,
		"shown":     shown,
		"kernels":   kernels,
		"s3":        s3,
		"inbox":     inbox,
	}
	p.Condition = func(cond string) (bool, error) {
		if cond != "root" {
			return false, fmt.Errorf("unknown condition %q", cond)
		}
		return os.Geteuid() == 0, nil
	}
	p.RequireUniqueNames = true
	if deadline, ok := t.Deadline(); ok {
		p.Deadline = deadline
	}
	testscript.RunT(serial{t}, p)
}

// serial runs scripts one after the other, since they measure, and each under
// the eye of [testkernel.NoLeaks].
type serial struct{ *testing.T }

func (serial) Parallel()     {}
func (serial) Verbose() bool { return testing.Verbose() }
func (t serial) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) {
		testkernel.NoLeaks(t)
		f(serial{t})
	})
}

// theT is the key of the script's *testing.T.
type theT struct{}

// copySources copies what a checkout of the example has, and not what somebody
// built in it.
func copySources(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".c", ".h", ".yml":
		default:
			continue
		}
		src, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), src, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func require(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: require FEATURE...")
	}
	t := ts.Value(theT{}).(*testing.T)
	for _, f := range args {
		testkernel.Require(t, testkernel.Feature(f))
	}
}

// staticGate builds the gate that can be the first process of a virtual machine, once.
var staticGate = sync.OnceValues(func() (string, error) {
	var err error
	if sharedDir, err = os.MkdirTemp("", "gate-static-"); err != nil {
		return "", err
	}
	bin := filepath.Join(sharedDir, "gate")
	cmd := exec.Command("go", "build", "-o", bin, "../cmd/gate")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

func kernels(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: kernels VERSION...")
	}
	t := ts.Value(theT{}).(*testing.T)
	for _, k := range args {
		haveKernel(t, k)
	}
	bin, err := staticGate()
	ts.Check(err)
	// The scripts have a home of their own; the kernels are in the host's.
	cache, err := os.UserCacheDir()
	ts.Check(err)
	ts.Setenv("XDG_CACHE_HOME", cache)
	ts.Setenv("PATH", filepath.Dir(bin)+string(filepath.ListSeparator)+ts.Getenv("PATH"))
}

// exits runs a command, which must end with exactly the code that is wanted. One that
// could not decide is run again, twice at most: a host that is taken away for a quarter
// of the time spoils rounds of its own, and says so. A verdict that is not the wanted
// one ends the script at once.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	const undecided = 4
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := -1
	for try := 0; try < 3 && (try == 0 || got == undecided); try++ {
		if got = exitCode(ts, ts.Exec(args[1], args[2:]...)); got == want {
			return
		}
	}
	ts.Fatalf("exit code %d, want %d", got, want)
}

func exitCode(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	ts.Fatalf("%v", err)
	return -1
}

func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: repeat N COMMAND [ARG]...")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for i := range n {
		if code := exitCode(ts, ts.Exec(args[1], args[2:]...)); code != 0 {
			ts.Fatalf("time %d of %d: exit code %d", i+1, n, code)
		}
	}
}

func ntimes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ntimes N TEXT")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile("stdout"), args[1]); got != want {
		ts.Fatalf("%q stands %d times in standard output, want %d", args[1], got, want)
	}
}

// patience is how long a background command may take to get where it is waited
// for: a compilation on a busy host, nothing that is judged.
const patience = time.Minute

// newest is the background command that was started last.
func newest(ts *testscript.TestScript) *exec.Cmd {
	all := ts.BackgroundCmds()
	if len(all) == 0 {
		ts.Fatalf("no background command")
	}
	cmd := all[len(all)-1]
	background[ts] = cmd
	return cmd
}

// background remembers the last command that was looked at by script, since
// testscript forgets those that were waited for. Scripts are run one at a time.
var background = map[*testscript.TestScript]*exec.Cmd{}

func until(ts *testscript.TestScript, what string, done func() bool) {
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("in %v: not %s", patience, what)
		}
	}
}

func measuring(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: measuring [DESCRIPTOR]")
	}
	what := "bpf-prog"
	if len(args) == 1 {
		what = args[0]
	}
	cmd := newest(ts)
	proc := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
	ours, err := os.Readlink("/proc/self/ns/net")
	ts.Check(err)
	until(ts, "measuring", func() bool {
		if state, err := os.ReadFile(proc + "/stat"); err != nil || bytes.Contains(state, []byte(") Z")) {
			ts.Fatalf("the command ended before it was seen to measure")
		}
		return holds(proc, what) && elsewhere(proc, ours)
	})
}

// holds tells that a process has a descriptor of this kind.
func holds(proc, kind string) bool {
	fds, _ := os.ReadDir(proc + "/fd")
	for _, fd := range fds {
		if to, _ := os.Readlink(proc + "/fd/" + fd.Name()); strings.Contains(to, kind) {
			return true
		}
	}
	return false
}

// elsewhere tells that a thread of a process is in another network namespace.
func elsewhere(proc, ours string) bool {
	tasks, _ := filepath.Glob(proc + "/task/*/ns/net")
	for _, task := range tasks {
		if ns, err := os.Readlink(task); err == nil && ns != ours {
			return true
		}
	}
	return false
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE:TEXT")
	}
	file, text, ok := strings.Cut(args[0], ":")
	if !ok {
		ts.Fatalf("usage: await FILE:TEXT")
	}
	newest(ts)
	until(ts, "in "+args[0], func() bool {
		got, _ := os.ReadFile(ts.MkAbs(file))
		return bytes.Contains(got, []byte(text))
	})
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ended CODE")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	cmd := background[ts]
	if cmd == nil || cmd.ProcessState == nil {
		ts.Fatalf("no background command was looked at and waited for")
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("the background command ended with %v, want %d", cmd.ProcessState, want)
	}
}
