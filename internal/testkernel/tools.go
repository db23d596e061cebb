package testkernel

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// command tells whether a tool is there and answers.
func command(name string, args ...string) error {
	return commandIn("", name, args...)
}

func commandIn(stdin, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s does not answer", name)
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is not installed", name)
	case err != nil:
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// files tells whether one of the patterns matches a file.
func files(patterns ...string) error {
	for _, p := range patterns {
		if found, err := filepath.Glob(p); err != nil {
			return err
		} else if len(found) > 0 {
			return nil
		}
	}
	return fmt.Errorf("no file %s", strings.Join(patterns, " or "))
}

// probeClang compiles, since a clang without the BPF target or without headers
// is of no use.
func probeClang() error {
	const source = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nSEC(\"xdp\") int x(void *c) { return 2; }\n"
	return commandIn(source, "clang", "-target", "bpf", "-O2", "-I", IncludeDir(), "-x", "c", "-c", "-", "-o", "/dev/null")
}

// probeQEMU looks for the machine of package vm, whose init is an executable of this
// host.
func probeQEMU() error {
	if runtime.GOARCH != "amd64" {
		return errors.New("executables of this host do not run on an x86-64")
	}
	return command("qemu-system-x86_64", "--version")
}

// BrowserPath is the executable of Chromium; empty: there is none.
func BrowserPath() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func probeBrowser() error {
	path := BrowserPath()
	if path == "" {
		return errors.New("no chromium is installed")
	}
	return command(path, "--version")
}

// IncludeDir is where Debian's multiarch layout keeps <asm/types.h>, which clang
// does not search when its target is bpf. On hosts without that layout it does
// not exist, and a compiler passes over it.
func IncludeDir() string {
	triple := map[string]string{
		"amd64":   "x86_64-linux-gnu",
		"arm64":   "aarch64-linux-gnu",
		"riscv64": "riscv64-linux-gnu",
		"s390x":   "s390x-linux-gnu",
		"ppc64le": "powerpc64le-linux-gnu",
	}[runtime.GOARCH]
	return "/usr/include/" + triple
}

// probeBPFTools looks for one of the tools, also where the PATH of a user who is
// not root does not lead.
func probeBPFTools() error {
	for _, name := range []string{"execsnoop", "/usr/sbin/execsnoop"} {
		if _, err := exec.LookPath(name); err == nil {
			return nil
		}
	}
	return errors.New("no execsnoop of libbpf-tools")
}
