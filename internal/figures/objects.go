//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bpf"
)

func objects(*lab) ([]row, error) {
	xdp, err := xdpTools()
	if err != nil {
		return nil, err
	}
	tools, err := libbpfTools()
	if err != nil {
		return nil, err
	}
	cache := btf.NewCache()
	rows := survey("xdp-tools", xdp, cache)
	return append(rows, survey("libbpf-tools", tools, cache)...), nil
}

// xdpTools opens the object files that xdp-tools installs.
func xdpTools() ([]*bpf.Object, error) {
	files, err := xdpToolsFiles()
	if err != nil {
		return nil, err
	}
	var all []*bpf.Object
	for _, f := range files {
		o, err := bpf.OpenObject(f)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func xdpToolsFiles() (all []string, err error) {
	for _, pattern := range []string{"/usr/lib/*/bpf/*.o", "/usr/lib/bpf/*.o", "/usr/lib64/bpf/*.o"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	if len(all) == 0 {
		return nil, errors.New("xdp-tools is not installed")
	}
	return all, nil
}

// libbpfTools opens the objects inside of the binaries that the package installs.
func libbpfTools() ([]*bpf.Object, error) {
	binaries, err := installed("libbpf-tools")
	if err != nil {
		return nil, err
	}
	var all []*bpf.Object
	for _, f := range binaries {
		in, err := bpf.Embedded(f)
		if err != nil {
			return nil, err
		}
		all = append(all, in...)
	}
	return all, nil
}

// installed names the executables of a Debian package, without symbolic links.
func installed(name string) (all []string, err error) {
	list, err := os.ReadFile("/var/lib/dpkg/info/" + name + ".list")
	if err != nil {
		return nil, fmt.Errorf("%s is not installed as a Debian package: %w", name, err)
	}
	for f := range strings.FieldsSeq(string(list)) {
		if st, err := os.Lstat(f); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			all = append(all, f)
		}
	}
	return all, nil
}

// survey loads every program of every object.
func survey(name string, all []*bpf.Object, cache *btf.Cache) []row {
	whole, programs, loaded := 0, 0, 0
	refused := map[string][]string{}
	ours := 0 // objects of which a program fails for a reason that is not the host's
	for _, o := range all {
		complete, blamed := true, false
		for _, p := range o.Programs() {
			programs++
			l, err := o.Load(p, bpf.LoadOptions{Cache: cache})
			if err == nil {
				l.Close()
				loaded++
				continue
			}
			complete = false
			class, host := classify(err)
			blamed = blamed || !host
			tool, _, _ := strings.Cut(filepath.Base(o.Path), "#")
			refused[class] = append(refused[class], tool+" "+p)
		}
		if complete {
			whole++
		}
		if blamed {
			ours++
		}
	}
	rows := []row{{
		what: name + ", objects that load whole", measured: fmt.Sprintf("%d of %d", whole, len(all)),
		beside: fmt.Sprintf("but for what the host refuses: %d", len(all)-ours), target: "all that the host takes", met: meets(ours == 0),
	}, {
		what: name + ", programs", measured: fmt.Sprintf("%d of %d", loaded, programs),
	}}
	for _, class := range slices.Sorted(maps.Keys(refused)) {
		rows = append(rows, row{what: "not loaded: " + class, measured: fmt.Sprint(len(refused[class])), beside: some(refused[class])})
	}
	return rows
}

// classify gives an error's reason in few words, and whether it is the host's.
func classify(err error) (class string, host bool) {
	var rejected *ebpf.VerifierError
	switch {
	case strings.Contains(err.Error(), "refuses to load fentry"):
		return "host refuses fentry and fexit", true
	case strings.Contains(err.Error(), "bad CO-RE relocation"):
		return "host's types lack a field or enumerator", true
	case errors.As(err, &rejected):
		return "rejected by the verifier", false
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "host has no such function or tracepoint", true
	case errors.Is(err, ebpf.ErrNotSupported):
		return "host's kernel lacks what the type needs", true
	}
	return err.Error(), false
}

// some names the first few.
func some(names []string) string {
	const most = 3
	s := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		s += ", …"
	}
	return s
}
