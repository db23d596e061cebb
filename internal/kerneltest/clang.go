package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/org/ebpf-bench-gate/internal/vm"
)

// kept ends the names of objects that were kept.
const kept = ".kept"

// versionFlag asks clang for its version, which is kept, too.
const versionFlag = "--version"

// guestObjects is where a guest has them.
const guestObjects = "/objects"

// keep makes a directory one that, first in PATH, has a clang that keeps what it
// makes in it.
func keep(self, dir string) error {
	out, err := exec.Command("clang", versionFlag).Output()
	if err != nil {
		return fmt.Errorf("clang: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, versionFlag+kept), out, 0o644); err != nil {
		return err
	}
	to := filepath.Join(dir, "clang")
	if err := os.Symlink(self, to); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// clang is the command of that name, in both places: on a host it has the real one do
// the work, and keeps the object; in a guest it has what was kept. An object is known by
// its source, the sources beside it, and its flags. (Tests compile some sources that
// they make, and nothing that is large.)
func clang(args []string) int {
	if len(args) == 1 && args[0] == versionFlag {
		if b, err := os.ReadFile(filepath.Join(guestObjects, versionFlag+kept)); err == nil {
			_, err = os.Stdout.Write(b)
			return failed(err)
		}
	}
	key, output, err := keyOf(args)
	if err == nil && key != "" {
		if b, err := os.ReadFile(filepath.Join(guestObjects, key+kept)); err == nil {
			return failed(os.WriteFile(output, b, 0o644))
		}
	}
	dir := filepath.Dir(os.Args[0])
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		dir = filepath.Dir(path)
	}
	real := realClang(dir)
	if real == "" {
		fmt.Fprintln(os.Stderr, "clang: the host's clang made no such object, and a guest has none")
		return 1
	}
	cmd := exec.Command(real, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin(), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		return failed(err)
	}
	if key == "" {
		return 0
	}
	b, err := os.ReadFile(output)
	if err != nil && output != os.DevNull {
		return failed(err)
	}
	// Another user's clang may not be allowed to: its objects are then not known.
	at := filepath.Join(dir, fmt.Sprintf(".%s.%d", key, os.Getpid()))
	if os.WriteFile(at, b, 0o644) == nil {
		_ = os.Rename(at, filepath.Join(dir, key+kept))
	}
	return 0
}

func failed(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "clang:", err)
	return 1
}

// source is what came through standard input.
var source []byte

func stdin() io.Reader {
	if source != nil {
		return bytes.NewReader(source)
	}
	return os.Stdin
}

// realClang is the next clang in PATH.
func realClang(not string) string {
	if vm.Inside() {
		return ""
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		at := filepath.Join(dir, "clang")
		if info, err := os.Stat(at); err == nil && dir != not && info.Mode()&0o111 != 0 {
			return at
		}
	}
	return ""
}

// keyOf is the name of what a command line compiles; empty, where it does not.
func keyOf(args []string) (key, output string, err error) {
	h := sha256.New()
	input := ""
	compiles := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-o" && i+1 < len(args):
			i++
			output = args[i]
			continue
		case a == "-c":
			compiles = true
		case (a == "-I" || a == "-idirafter" || a == "-iquote") && i+1 < len(args):
			i++ // where directories are, differs
			continue
		case strings.HasPrefix(a, "-I"), strings.HasPrefix(a, "-ffile-prefix-map"), strings.HasPrefix(a, "-fdebug-prefix-map"), strings.HasPrefix(a, "-fdebug-compilation-dir"):
			continue
		case a == "-", strings.HasSuffix(a, ".c"):
			input = a
			continue
		}
		fmt.Fprintf(h, "%q\n", a)
	}
	if !compiles || input == "" || output == "" {
		return "", "", nil
	}
	if input == "-" {
		if source, err = io.ReadAll(os.Stdin); err != nil {
			return "", "", err
		}
		h.Write(source)
		return hex.EncodeToString(h.Sum(nil)), output, nil
	}
	headers, err := filepath.Glob(filepath.Join(filepath.Dir(input), "*.h"))
	if err != nil {
		return "", "", err
	}
	for _, name := range append([]string{input}, headers...) {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", "", err
		}
		fmt.Fprintf(h, "%d\n", len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), output, nil
}
