package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Credentials are variables that no command of a project has business with: credentials
// of a forge's job, and the files through which a step commands the runner.
var Credentials = []string{
	"GITHUB_TOKEN", "GH_TOKEN", "GATE_TOKEN", "INPUT_GITHUB-TOKEN",
	"ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL", "ACTIONS_RESULTS_URL", "ACTIONS_CACHE_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL",
	"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY",
}

// Shell runs a shell command in dir to its end, as the user that builds run as, with
// gate's environment but for [Credentials], and env. What it has started and left in
// its process group is ended with it. A cancelled context ends all of it; the error is
// then the context's cause.
func Shell(ctx context.Context, dir, command string, env []string, stdout, stderr io.Writer) error {
	cmd := ownerOf(dir).command(ctx, dir, "sh", "-c", command)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(Credentials, name)
	})
	cmd.Env = append(cmd.Env, env...)
	// Pipes of our own: what it leaves running may hold them open, and is ended before
	// they are waited for.
	var drained sync.WaitGroup
	defer drained.Wait()
	for _, to := range []struct {
		file *io.Writer
		out  io.Writer
	}{{&cmd.Stdout, stdout}, {&cmd.Stderr, stderr}} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		defer write.Close()
		// Only what has left the group can go on writing.
		defer func() { _ = read.SetReadDeadline(time.Now().Add(grace)) }()
		*to.file = write
		drained.Go(func() {
			_, _ = io.Copy(to.out, read)
			read.Close()
		})
	}
	done := dieWithUs(cmd)
	err := run(ctx, cmd)
	done()
	killAll(cmd)
	return err
}

// A Scratch holds temporary directories for what commands write. One that a killed gate
// left is removed by the next [Open]. Close it.
type Scratch struct {
	*scratch
	owner owner // of the directories in it
	made  int
}

// NewScratch is a scratch for the commands of a directory.
func NewScratch(dir string) (*Scratch, error) {
	// The directory around is gate's own: whoever owned it could put a link into the
	// place of one that gate reads.
	s, err := newScratch(owner{})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil {
		_ = s.remove()
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	return &Scratch{scratch: s, owner: ownerOf(dir)}, nil
}

// Dir makes an empty directory, and returns what removes it.
func (s *Scratch) Dir() (dir string, done func(), err error) {
	s.made++
	dir = filepath.Join(s.dir, fmt.Sprint(s.made))
	if err = os.Mkdir(dir, 0o700); err == nil {
		err = s.owner.give(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	return dir, func() { _ = removeAll(dir) }, nil
}

// Close removes everything.
func (s *Scratch) Close() error { return s.remove() }
