package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// grace is the time between asking a cancelled process to end and killing it:
// make removes half-written targets when asked.
const grace = 2 * time.Second

// repositoryEnv are git's variables that name a repository. A gate that was
// started by a git hook inherits them, and they would send every git command,
// also those of a build, to head's repository and index.
var repositoryEnv = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE",
}

// command prepares a process of the tree's owner in a session of its own: it
// gets no Ctrl-C from the terminal and cannot ask there for a password, and all
// of it can be ended at once.
func (o owner) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	drop := repositoryEnv
	if o.switched {
		drop = append([]string{"HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}, drop...)
	}
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		if !contains(drop, key) {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if o.switched {
		cmd.Env = append(cmd.Env, "HOME="+o.home, "USER="+o.name, "LOGNAME="+o.name)
	}
	cmd.WaitDelay = grace
	o.isolate(cmd)
	return cmd
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// run runs a prepared command and kills what a cancelled one left. That a
// background process keeps the output open is no failure.
func run(ctx context.Context, cmd *exec.Cmd) error {
	err := cmd.Run()
	if ctx.Err() != nil {
		killAll(cmd)
		return context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// A tail keeps the end of what is written to it.
type tail struct {
	buf     []byte
	dropped bool
}

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailBytes; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
		t.dropped = true
	}
	return len(p), nil
}

// lines are the last n lines, indented under an error.
func (t *tail) lines(n int) string {
	text := strings.TrimRight(string(bytes.ToValidUTF8(t.buf, []byte("?"))), "\n")
	if text == "" {
		return ""
	}
	all := strings.Split(text, "\n")
	cut := t.dropped || len(all) > n
	all = all[max(0, len(all)-n):]
	var b strings.Builder
	if cut {
		fmt.Fprintf(&b, "\n  … the last %d lines:", len(all))
	}
	for _, l := range all {
		b.WriteString("\n  " + strings.TrimRight(l, "\r"))
	}
	return b.String()
}

// OwnerCommand prepares a command that runs in dir as the user that builds run as:
// gate's own or, where that is root, the directory's owner.
func OwnerCommand(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	return ownerOf(dir).command(ctx, dir, name, args...)
}
