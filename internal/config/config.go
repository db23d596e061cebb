package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// FileName is the name that [Find] looks for.
const FileName = "ebpf-bench.yml"

// Version is the version of the language that this package reads.
const Version = 1

// MaxSize is the largest config in bytes.
const MaxSize = 1 << 20

// A Suite is a whole config: everything that is measured and how it is judged.
type Suite struct {
	Version int
	// File is the config as the caller named it; Dir is its directory, to
	// which every path of the suite is relative.
	File, Dir string

	Build Build
	// Programs and Benchmarks stand in the order of the file, commands of user space
	// ([bench.Harness]) behind the other benchmarks.
	Programs   []bench.Program
	Benchmarks []bench.Benchmark
	// Kernels are the testbeds: versions, or "host" for the running kernel. Empty:
	// the host alone.
	Kernels []string
	Agents  []bench.Agent
	// Captures are the captures of packets that were read, as the file names
	// them: local, slash-separated, relative to Dir.
	Captures []string
	// Policy is [gate.DefaultPolicy] with what the file sets.
	Policy gate.Policy
}

// A Build says how objects are made. Its zero value builds nothing.
type Build struct {
	Pos bench.Pos
	// Run is a shell command, run in the config's directory of each tree as
	// the invoking user. Empty: nothing is run.
	Run string
	// Share are untracked paths that base's tree gets from head's: local,
	// slash-separated, relative to Dir.
	Share []string
	// Outputs are globs (as in [path.Match]) of the files that the build
	// makes: local, slash-separated, relative to Dir.
	Outputs []string
	// CFlags are further flags of clang for .bpf.c sources.
	CFlags []string
	// Timeout ends Run; 0 is the builder's default.
	Timeout time.Duration
}

// Find looks for [FileName] in dir and above it, up to the root of the
// repository that dir is in. Above dir it passes over directories in which
// anybody can write, since the file says what is run. The error wraps
// [fs.ErrNotExist] when there is none.
func Find(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", FileName, err)
	}
	up := "."
	for at := abs; ; at, up = filepath.Dir(at), filepath.Join(up, "..") {
		if at == abs || !anybodyWrites(at) {
			if info, err := os.Stat(filepath.Join(at, FileName)); err == nil && info.Mode().IsRegular() {
				return filepath.Join(dir, up, FileName), nil
			}
		}
		_, err := os.Lstat(filepath.Join(at, ".git"))
		if err == nil || at == filepath.Dir(at) {
			return "", fmt.Errorf("no %s in %s or above it: %w", FileName, abs, fs.ErrNotExist)
		}
	}
}

func anybodyWrites(dir string) bool {
	info, err := os.Stat(dir)
	return err != nil || info.Mode().Perm()&0o002 != 0
}

// Load reads and parses a file. Mistakes in it are [Diagnostics].
func Load(path string) (*Suite, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read config: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	defer f.Close()
	// One byte more than is allowed, so that Parse tells of the excess.
	src, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return Parse(path, src)
}

// Parse reads a config. The file's name stands in positions, and captures of
// packets are read from its directory. The error is [Diagnostics].
func Parse(file string, src []byte) (*Suite, error) {
	s := &Suite{File: file, Dir: filepath.Dir(file), Policy: gate.DefaultPolicy()}
	r := &reader{source: file, dir: s.Dir}
	root := r.tree(src)
	if root == nil {
		return nil, r.err()
	}
	hasVersion := false
	var commands []bench.Benchmark
	ok := r.mapping(root, "the config", fields{
		"version":    func(_, v *yaml.Node) { hasVersion = true; s.Version = r.version(v) },
		"build":      func(k, v *yaml.Node) { s.Build = r.build(k, v) },
		"programs":   func(_, v *yaml.Node) { s.Programs = r.programs(v) },
		"benchmarks": func(_, v *yaml.Node) { s.Benchmarks = r.benchmarks(v) },
		"commands":   func(_, v *yaml.Node) { commands = r.harnesses(v) },
		"kernels":    func(_, v *yaml.Node) { s.Kernels = r.kernels(v) },
		"agents":     func(_, v *yaml.Node) { s.Agents = r.agents(v) },
		"policy":     func(_, v *yaml.Node) { s.Policy = r.policy(v) },
	})
	if ok && !hasVersion {
		r.fail(root, "start with version: 1", "the config has no version")
	}
	r.ofAgents(s)
	r.known(s.Benchmarks, s.Programs)
	s.Benchmarks = append(s.Benchmarks, commands...)
	r.ofHarnesses(s)
	s.Captures = r.captures
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// ParsePolicy reads the version and the policy of a config, and nothing else:
// for a base revision whose other parts may not fit the tree at hand. The error
// is [Diagnostics].
func ParsePolicy(file string, src []byte) (gate.Policy, error) {
	p := gate.DefaultPolicy()
	r := &reader{source: file}
	root := r.tree(src)
	if root == nil {
		return gate.Policy{}, r.err()
	}
	if root.Kind != yaml.MappingNode {
		r.wrong(root, "the config", "a mapping")
	}
	hasVersion := false
	for key, v := range pairs(root) {
		switch key.Value {
		case "version":
			hasVersion = true
			r.version(v)
		case "policy":
			p = r.policy(v)
		}
	}
	if root.Kind == yaml.MappingNode && !hasVersion {
		r.fail(root, "start with version: 1", "the config has no version")
	}
	if err := r.err(); err != nil {
		return gate.Policy{}, err
	}
	return p, nil
}

var kernel = regexp.MustCompile(`^([0-9]+\.[0-9]+([.+~-]+[0-9a-z]+)*|host)$`)

// kernels are the kernels that a suite is measured on. A file of one person's host is
// for the command line.
func (r *reader) kernels(n *yaml.Node) []string {
	return r.words(n, "kernels", func(v *yaml.Node) (string, bool) {
		w, ok := r.word(v, "a kernel", "a version, such as 6.12, or host")
		if ok && (!kernel.MatchString(w) || len(w) > 63) {
			r.fail(v, "a version, such as 6.12, or host for the running kernel", "%s is not a version of Linux", quote(w))
			return "", false
		}
		return w, ok
	})
}

// version checks that the config is of the language that this package reads.
func (r *reader) version(n *yaml.Node) int {
	w, ok := r.word(n, "version", "a number")
	if ok && w != strconv.Itoa(Version) {
		r.fail(n, fmt.Sprintf("this gate reads version: %d", Version), "version %s is not known to this version of gate", quote(w))
	}
	return Version
}
