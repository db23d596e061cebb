//go:build linux

package bpf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// checkExecutable is for "path:symbol", where the symbol may have an offset or be a
// pattern.
func checkExecutable(h Hook, spec *ebpf.ProgramSpec) error {
	file, symbol, _ := strings.Cut(h.target, ":")
	if file == "" || symbol == "" {
		return errors.New("a probe of a program needs its file and a function")
	}
	h.target = symbol
	if strings.Contains(h.text, ".multi") {
		return checkPattern(h, spec)
	}
	return checkFunction(h, spec)
}

// executable opens the file of "path:symbol".
func (a attaching) executable() (ex *link.Executable, file, symbol string, err error) {
	file, symbol, _ = strings.Cut(a.target, ":")
	if file, err = a.binary(file); err != nil {
		return nil, "", "", err
	}
	ex, err = link.OpenExecutable(file)
	return ex, file, symbol, err
}

// noFunction is the error of a file that has no such function.
func (a attaching) noFunction(file, symbol string) error {
	known, _ := functionsOf(file, "*")
	before, _, _ := strings.Cut(a.target, ":")
	for i, name := range known {
		known[i] = before + ":" + name
	}
	return a.missing(known, "%s has no function %s (is it stripped?)", file, symbol)
}

// binary is the file that is meant by a path or a name; that of a name is looked for
// where the shell and the dynamic linker look.
func (a attaching) binary(name string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(a.place.Dir, name)
		}
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return "", a.missing(nil, "there is no file %s", name)
		}
		return name, nil
	}
	if found, err := exec.LookPath(name); err == nil {
		return filepath.Abs(found)
	}
	for _, pattern := range []string{"/lib/*-linux-gnu/", "/usr/lib/*-linux-gnu/", "/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/", "/usr/local/lib/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", a.missing(nil, "there is no program or library %s: write its path", name)
}

func attachUprobe(a attaching) (io.Closer, error) {
	ex, file, symbol, err := a.executable()
	if err != nil {
		return nil, err
	}
	symbol, offset, err := cutOffset(symbol)
	if err != nil {
		return nil, err
	}
	opts := &link.UprobeOptions{Offset: offset}
	attach := ex.Uprobe
	if strings.HasPrefix(a.name, "uret") {
		attach = ex.Uretprobe
	}
	l, err := attach(symbol, a.prog, opts)
	if errors.Is(err, link.ErrNoSymbol) {
		return nil, a.noFunction(file, symbol)
	}
	return closer(l, err)
}

func attachUprobeMulti(a attaching) (io.Closer, error) {
	ex, file, symbol, err := a.executable()
	if err != nil {
		return nil, err
	}
	symbols := []string{symbol}
	if isPattern(symbol) {
		if symbols, err = functionsOf(file, symbol); err != nil {
			return nil, err
		}
		if len(symbols) == 0 {
			return nil, a.noFunction(file, symbol)
		}
	}
	attach := ex.UprobeMulti
	if strings.HasPrefix(a.name, "uret") {
		attach = ex.UretprobeMulti
	}
	l, err := attach(symbols, a.prog, nil)
	if errors.Is(err, link.ErrNoSymbol) {
		return nil, a.noFunction(file, symbol)
	}
	return closer(l, err)
}

// functionsOf are the functions of an executable or library that a pattern matches.
func functionsOf(file, pattern string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	symbols, _ := f.Symbols() // a stripped file has none of these
	dynamic, _ := f.DynamicSymbols()
	var names []string
	for _, s := range slices.Concat(symbols, dynamic) {
		if ok, _ := path.Match(pattern, s.Name); ok && elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
