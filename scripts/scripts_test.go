//go:build linux

// Package scripts_test runs the scripts on a machine that it makes up: a PATH with
// the few tools that they need, and stand-ins that note how they were called.
// Nothing is installed.
package scripts_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tools are what a minimal Debian has.
var tools = []string{"bash", "cat", "chown", "dirname", "env", "grep", "mktemp", "rm", "sed", "true"}

// A machine is a tree with the scripts in it, and a PATH of its own.
type machine struct {
	t         *testing.T
	tree, bin string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{t, t.TempDir(), t.TempDir()}
	for _, tool := range tools {
		where, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(where, filepath.Join(m.bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	m.write("go.mod", "module x\n\ngo 1.26.0\n")
	scripts, err := filepath.Glob("*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m.write("scripts/"+name, string(text))
	}
	m.tool("go", "exit 0")
	return m
}

func (m machine) write(name, text string) {
	m.t.Helper()
	name = filepath.Join(m.tree, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// tool puts a stand-in in PATH. It notes its arguments in the tree's "calls".
func (m machine) tool(name, body string) {
	m.t.Helper()
	script := "#!/bin/bash\necho \"" + name + " $*\" >>" + m.tree + "/calls\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(script), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// user makes every script believe that it is run by the user.
func (m machine) user(uid string) { m.tool("id", "echo "+uid) }

// run runs a script without a terminal, and gives all that it said.
func (m machine) run(script string, args ...string) (code int, said string) {
	m.t.Helper()
	c := exec.Command("bash", append([]string{filepath.Join(m.tree, "scripts", script)}, args...)...)
	c.Env = []string{"PATH=" + m.bin, "TMPDIR=" + m.t.TempDir()}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// calls are the calls of a stand-in, without its name.
func (m machine) calls(tool string) (all []string) {
	text, err := os.ReadFile(filepath.Join(m.tree, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), tool+" "); ok {
			all = append(all, args)
		}
	}
	return all
}

// TestSetup makes git the tool that is missing; clang is a stand-in, and so is
// what else setup.sh demo looks for, unless this host lacks its files.
func TestSetup(t *testing.T) {
	for _, file := range []string{"/usr/include/bpf/bpf_helpers.h", "/usr/include/linux/bpf.h",
		"/etc/ssl/certs/ca-certificates.crt"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("setup.sh would want more than git here: %v", err)
		}
	}
	for _, sbin := range []string{"/usr/sbin/git", "/sbin/git"} {
		if _, err := os.Stat(sbin); err == nil {
			t.Skipf("%s cannot be hidden from setup.sh", sbin)
		}
	}
	const aptGit = "-qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends git"
	const aptUpdate = "-qq -o DPkg::Lock::Timeout=300 update"
	for _, tt := range []struct {
		name  string
		goal  string
		uid   string
		apt   string // what apt-get does; empty: there is none
		sudo  string
		git   bool
		code  int
		says  string
		calls []string // of apt-get
	}{
		{name: "nothing missing", goal: "demo", uid: "1000", git: true},
		{name: "root", goal: "demo", uid: "0", apt: "exit 0", says: "installing git", calls: []string{aptGit}},
		{name: "sudo", goal: "demo", uid: "1000", apt: "exit 0", sudo: `[ "$1" = -n ] && shift; exec "$@"`,
			says: "installing git", calls: []string{aptGit}},
		{name: "old lists", goal: "demo", uid: "0",
			apt:  `case "$*" in *update) : >updated;; *) [ -e updated ];; esac`,
			says: "installing git", calls: []string{aptGit, aptUpdate, aptGit}},
		{name: "apt fails", goal: "demo", uid: "0", apt: "echo no such archive; exit 100", code: 1,
			says: "no such archive", calls: []string{aptGit, aptUpdate, aptGit}},
		{name: "sudo asks", goal: "demo", uid: "1000", apt: "exit 0", sudo: "exit 1", code: 1,
			says: "error: cannot install packages: neither root nor sudo without a password; install by hand: git"},
		{name: "no sudo", goal: "demo", uid: "1000", apt: "exit 0", code: 1, says: "install by hand: git"},
		{name: "not Debian", goal: "demo", uid: "0", code: 1, says: "neither Debian nor Ubuntu; install by hand: git"},
		{name: "tests go on", goal: "test", uid: "1000", apt: "exit 0", says: "warning: cannot install packages"},
		{name: "bad goal", goal: "demos", uid: "0", git: true, code: 2, says: "usage:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.user(tt.uid)
			m.tool("clang", "exit 0")
			if tt.git {
				m.tool("git", "exit 0")
			}
			if tt.apt != "" {
				m.tool("apt-get", tt.apt)
			}
			if tt.sudo != "" {
				m.tool("sudo", tt.sudo)
			}
			code, said := m.run("setup.sh", tt.goal)
			if code != tt.code {
				t.Errorf("exit %d, want %d", code, tt.code)
			}
			if !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("said %q, want %q", said, tt.says)
			}
			if got := m.calls("apt-get"); !slices.Equal(got, tt.calls) {
				t.Errorf("apt-get was called\n%q, want\n%q", got, tt.calls)
			}
		})
	}
}

// TestSetupWithoutGo checks that the one thing that set-up does not install is
// asked for.
func TestSetupWithoutGo(t *testing.T) {
	m := newMachine(t)
	if err := os.Remove(filepath.Join(m.bin, "go")); err != nil {
		t.Fatal(err)
	}
	code, said := m.run("setup.sh", "demo")
	if want := "gate needs Go 1.26.0 or later"; code != 1 || !strings.Contains(said, want) {
		t.Errorf("exit %d, said %q, want 1 and %q", code, said, want)
	}
}

// TestDemo holds the demo against gates that answer rightly and wrongly.
func TestDemo(t *testing.T) {
	const good = `case "$*" in
*v3_fibonacci.bpf.c) echo fun_xdp/worst regressed; exit 1;;
*v4_lookup.bpf.c) echo improved; exit 0;;
*) exit 1;; esac`
	for _, tt := range []struct {
		name, gate, uid, sudo string
		code                  int
		says                  string
	}{
		{name: "good", gate: good, uid: "0", says: "Next: "},
		{name: "sudo", gate: good, uid: "1000", sudo: `[ "$1" = -n ] && shift; exec "$@"`, says: "$ sudo bin/gate run"},
		{name: "no root", gate: good, uid: "1000", code: 3, says: "needs root"},
		{name: "all pass", gate: "echo fun_xdp/worst improved", uid: "0", code: 1, says: "exit 0, expected 1"},
		{name: "all fail", gate: "echo fun_xdp/worst improved; exit 1", uid: "0", code: 1, says: "exit 1, expected 0"},
		{name: "cannot measure", gate: "exit 3", uid: "0", code: 1, says: "exit 3, expected 0 1"},
		{name: "worst not named", gate: strings.ReplaceAll(good, "fun_xdp/worst", "something"), uid: "0", code: 1, says: "does not say fun_xdp/worst"},
		{name: "no improvement", gate: strings.ReplaceAll(good, "echo improved", "echo pass"), uid: "0", code: 1, says: "does not say improved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.user(tt.uid)
			m.write("bin/gate", "#!/bin/bash\n"+tt.gate+"\n")
			if tt.sudo != "" {
				m.tool("sudo", tt.sudo)
			}
			code, said := m.run("demo.sh")
			if code != tt.code || !strings.Contains(said, tt.says) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, tt.code, tt.says, said)
			}
		})
	}
}
