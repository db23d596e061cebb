package symbol

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// build runs a compiler and gives the path of what it made.
func build(t testing.TB, name string, args ...string) string {
	t.Helper()
	compiler, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s", name)
	}
	out := filepath.Join(t.TempDir(), "program")
	for i, arg := range args {
		if arg == "OUT" {
			args[i] = out
		}
	}
	cmd := exec.Command(compiler, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, text)
	}
	return out
}

// TestGo compares Go's table with what the runtime of the program itself says, at thousands of
// addresses, and of calls through functions that were inlined.
func TestGo(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"plain", nil},
		{"stripped", []string{"-ldflags=-s -w"}},
		{"pie", []string{"-buildmode=pie"}},
		{"pie stripped", []string{"-buildmode=pie", "-ldflags=-s -w"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"build"}, tt.args...)
			program := build(t, "go", append(args, "-o", "OUT", "testdata/oracle.go")...)
			cmd := exec.Command(program)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer in.Close()
			users := NewUsers(Options{})
			defer users.Close()
			addresses, inlined, bad := 0, 0, 0
			for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
				kind, rest, _ := strings.Cut(lines.Text(), "\t")
				if strings.HasPrefix(kind, "#") {
					continue
				}
				address, want, _ := strings.Cut(rest, "\t")
				addr, err := strconv.ParseUint(address, 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				frames := users.Frames(cmd.Process.Pid, addr)
				if kind == "leaf" {
					frames = frames[:1]
				}
				var got []string
				for i, f := range frames {
					got = append(got, fmt.Sprintf("%s\t%s\t%d", f.Function, f.File, f.Line))
					if i > 0 {
						inlined++
					}
				}
				addresses++
				if g := strings.Join(got, "\t"); g != want {
					if bad++; bad < 5 {
						t.Errorf("%s %x:\n got %s\nwant %s", kind, addr, g, want)
					}
				}
			}
			if bad > 0 || addresses < 5000 || inlined < 15 {
				t.Errorf("%d addresses, %d wrong, %d inlined calls; %q", addresses, bad, inlined, users.Doubts())
			}
			t.Logf("%d addresses, %d inlined calls in chains, all as the runtime says", addresses, inlined)
		})
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
