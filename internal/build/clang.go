package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// target is what clang has to be told of an architecture.
type target struct {
	// define is the suffix of __TARGET_ARCH_, as bpf_tracing.h has it.
	define string
	// triple is Debian's directory of machine-dependent headers (asm/types.h),
	// which -target bpf does not look into by itself.
	triple string
}

// targets by GOARCH.
var targets = map[string]target{
	"386":      {"x86", "i386-linux-gnu"},
	"amd64":    {"x86", "x86_64-linux-gnu"},
	"arm":      {"arm", "arm-linux-gnueabihf"},
	"arm64":    {"arm64", "aarch64-linux-gnu"},
	"loong64":  {"loongarch", "loongarch64-linux-gnu"},
	"mips64":   {"mips", "mips64-linux-gnuabi64"},
	"mips64le": {"mips", "mips64el-linux-gnuabi64"},
	"ppc64":    {"powerpc", "powerpc64-linux-gnu"},
	"ppc64le":  {"powerpc", "powerpc64le-linux-gnu"},
	"riscv64":  {"riscv", "riscv64-linux-gnu"},
	"s390x":    {"s390", "s390x-linux-gnu"},
}

// Object returns the absolute path of an object: name itself, or what clang
// makes of it where it ends in ".c". The name is relative to Dir, slash-
// separated, and may lead out of Dir but not out of Root. The compiled object
// lives until Close, and never beside its source.
//
// Relative paths in cflags are relative to Dir. One source in two trees gives the
// same bytes: Root is recorded as ".". A name that does not exist is [fs.ErrNotExist].
func (t *Tree) Object(ctx context.Context, name string, cflags []string) (string, error) {
	src, err := t.path(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.Revision.Short(), err)
	}
	if !strings.HasSuffix(name, ".c") {
		return src, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := strings.Join(append([]string{src}, cflags...), "\x00")
	if obj, ok := t.objects[key]; ok {
		return obj, nil
	}
	obj, err := t.compile(ctx, src, key, cflags)
	if err != nil {
		return "", err
	}
	if t.objects == nil {
		t.objects = map[string]string{}
	}
	t.objects[key] = obj
	return obj, nil
}

func (t *Tree) compile(ctx context.Context, src, key string, cflags []string) (string, error) {
	clang, err := findClang()
	if err != nil {
		return "", err
	}
	if t.scratch == nil {
		if t.scratch, err = newScratch(t.owner); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256([]byte(key))
	dir := filepath.Join(t.scratch.dir, "objects-"+hex.EncodeToString(sum[:8]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := t.owner.give(dir); err != nil {
		return "", err
	}
	base := strings.TrimSuffix(filepath.Base(src), ".c")
	obj := filepath.Join(dir, strings.TrimSuffix(base, ".bpf")+".bpf.o")

	// Names relative to Dir, from where clang runs and where the user's own -I
	// are relative to, are the same in every tree.
	rel, err := filepath.Rel(t.Dir, src)
	if err != nil {
		return "", err
	}
	args := []string{
		"-O2", "-g", "-target", "bpf",
		"-ffile-prefix-map=" + t.Root + "=.", "-fdebug-compilation-dir=.",
	}
	if a, ok := targets[runtime.GOARCH]; ok {
		args = append(args, "-D__TARGET_ARCH_"+a.define)
		if inc := filepath.Join("/usr/include", a.triple); isDir(inc) {
			args = append(args, "-idirafter", inc)
		}
	}
	args = append(args, "-I"+localName(filepath.Dir(rel)))
	// The user's flags come last, where they win.
	args = append(args, cflags...)
	args = append(args, "-c", localName(rel), "-o", obj)

	var msg tail
	cmd := t.owner.command(ctx, t.Dir, clang, args...)
	cmd.Stdout, cmd.Stderr = &msg, &msg
	if err := run(ctx, cmd); err != nil {
		return "", advise(fmt.Errorf("compile %s: %w%s", t.named(src), err, msg.lines(outputLines)), compileAdvice(string(msg.buf)))
	}
	return obj, nil
}

// named is a source for people. Where the tree is that one file, its revision is
// only another name of it.
func (t *Tree) named(src string) string {
	if t.File == "" {
		if rel, err := filepath.Rel(t.Dir, src); err == nil {
			return filepath.ToSlash(rel) + " of " + t.Revision.Short()
		}
	}
	if wd, err := os.Getwd(); err == nil {
		if wd, err = filepath.EvalSymlinks(wd); err == nil && inside(wd, src) {
			src, _ = filepath.Rel(wd, src)
		}
	}
	return src
}

// localName writes a relative name so that it cannot be taken for a flag.
func localName(rel string) string { return "." + string(filepath.Separator) + rel }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// compileAdvice knows the headers that a fresh machine misses.
func compileAdvice(msg string) string {
	missing := func(header string) bool { return strings.Contains(msg, "'"+header+"' file not found") }
	switch {
	case missing("vmlinux.h"):
		return "bpftool btf dump file /sys/kernel/btf/vmlinux format c > vmlinux.h, beside the source"
	case missing("bpf/bpf_helpers.h"):
		return "install the headers of libbpf: apt install libbpf-dev, dnf install libbpf-devel"
	case missing("linux/bpf.h"), missing("asm/types.h"):
		return "install the kernel's headers: apt install linux-libc-dev, dnf install kernel-headers"
	case strings.Contains(msg, "unknown target triple 'bpf'"), strings.Contains(msg, "No available targets are compatible"):
		return "this clang has no BPF backend: apt install clang, or set CLANG to one that has"
	}
	return ""
}

var versionedClang = regexp.MustCompile(`^clang-(\d+)$`)

// findClang is $CLANG, else clang, else the highest clang-N in PATH.
func findClang() (string, error) {
	name := os.Getenv("CLANG")
	if name == "" {
		name = "clang"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	best := 0
	if os.Getenv("CLANG") == "" {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				m := versionedClang.FindStringSubmatch(e.Name())
				if m == nil {
					continue
				}
				if n, _ := strconv.Atoi(m[1]); n > best && filepath.IsAbs(dir) {
					best, path = n, filepath.Join(dir, e.Name())
				}
			}
		}
	}
	if best == 0 {
		return "", advise(fmt.Errorf("compile: %s is not installed", name), "apt install clang, dnf install clang, or set CLANG")
	}
	return path, nil
}

var clangVersion = regexp.MustCompile(`clang version (\S+)`)

// ClangVersion is the version of the clang that [Tree.Object] uses, such as
// "14.0.6".
func ClangVersion(ctx context.Context) (string, error) {
	clang, err := findClang()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, clang, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", clang, err)
	}
	m := clangVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s --version: not what clang says", clang)
	}
	return string(m[1]), nil
}
