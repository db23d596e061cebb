package harness

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/adapter"
	"github.com/org/ebpf-bench-gate/internal/build"
)

// MaxOutput is how much a command may say, in bytes.
const MaxOutput = 32 << 20

// MaxResults is how many results one run of a command may have.
const MaxResults = 1000

// A Process is a command and where it runs. Close it.
type Process struct {
	b       bench.Harness
	dir     string // absolute
	scratch *build.Scratch
}

// New prepares a command in the tree whose directory of the config is dir.
func New(b bench.Harness, dir string) (*Process, error) {
	at := filepath.Join(dir, filepath.FromSlash(b.Dir))
	// A link in the tree may lead anywhere, and the user who runs the command follows
	// from whose directory it is.
	if real, err := filepath.EvalSymlinks(at); err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	} else if root, err := filepath.EvalSymlinks(dir); err != nil || !within(root, real) {
		return nil, fmt.Errorf("dir: %s leads out of the tree", b.Dir)
	}
	s, err := build.NewScratch(at)
	if err != nil {
		return nil, err
	}
	return &Process{b: b, dir: at, scratch: s}, nil
}

func within(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}

// Close removes what runs have written.
func (p *Process) Close() error { return p.scratch.Close() }

// An Output is what one run of a command measured.
type Output struct {
	Format  string // by name, see package internal/adapter
	Results []bench.Result
	// Profiles are those that the command wrote, and Problems why some of them cannot be
	// read.
	Profiles []*Profile
	Problems []error
}

// An Error is a command that failed, with the end of what it said.
type Error = build.CommandError

var (
	errLate  = errors.New("took too long")
	errFlood = fmt.Errorf("it says more than %d MB", MaxOutput>>20)
)

// Run runs the command once, and reads what it measured.
func (p *Process) Run(ctx context.Context) (*Output, error) {
	tmp, done, err := p.scratch.Dir()
	if err != nil {
		return nil, err
	}
	defer done()
	said, err := p.shell(ctx, tmp)
	fail := func(err error, advice string) (*Output, error) {
		return nil, &Error{Command: p.b.Run, Err: err, Said: said.end(20), Advice: advice}
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.Is(err, errLate):
		return fail(err, "raise within: in the config, or let it do less")
	case errors.Is(err, errFlood):
		return fail(err, "have it write a file below $GATE_TMP, and name that: results: FILE")
	case errors.As(err, &exit) && exit.ExitCode() == 127:
		return fail(err, "is it installed, and in PATH? Commands run in the tree of each side, as builds do")
	case ctx.Err() != nil:
		return nil, err
	default:
		return fail(err, "")
	}
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	set, f, err := p.read(root, said.stdout.Bytes())
	var wrong *bench.Diagnostic
	switch {
	case errors.Is(err, adapter.ErrUnknown):
		return fail(errors.New("it says nothing that gate reads"), "adapter: NAME insists on a format (gate import --help lists them); results: FILE reads a file below $GATE_TMP")
	case errors.As(err, &wrong):
		return fail(err, wrong.Hint)
	case err != nil:
		return fail(err, "")
	}
	out := &Output{Format: f.Name, Results: set.Medians()}
	switch {
	case len(out.Results) == 0:
		return fail(errors.New("it measured nothing"), "")
	case len(out.Results) > MaxResults:
		return fail(fmt.Errorf("%d results, at most %d", len(out.Results), MaxResults), "let it run fewer benchmarks")
	}
	for _, name := range p.b.Profiles {
		profile, err := readProfile(root, name, p.dir)
		if err != nil {
			out.Problems = append(out.Problems, fmt.Errorf("profile %s: %w", name, err))
			continue
		}
		out.Profiles = append(out.Profiles, profile)
	}
	return out, nil
}

// read reads the results.
func (p *Process) read(root *os.Root, stdout []byte) (*adapter.Set, adapter.Format, error) {
	o := adapter.Options{File: "standard output"}
	if p.b.Results != "" {
		o.File = "$GATE_TMP/" + p.b.Results
		return adapter.ReadRoot(root, p.b.Results, p.b.Adapter, o)
	}
	return adapter.ReadAny(bytes.NewReader(stdout), p.b.Adapter, o)
}

// shell runs the command to its end, and ends what it leaves.
func (p *Process) shell(ctx context.Context, tmp string) (*said, error) {
	within := cmp.Or(p.b.Within, bench.DefaultHarnessWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w: not done within %v", errLate, within))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &said{flood: func() { stop(errFlood) }}
	err := build.Shell(ctx, p.dir, p.b.Run, append([]string{"GATE_TMP=" + tmp}, p.b.Env...), writer(s.out), writer(s.err))
	if s.flooded && !errors.Is(err, errLate) {
		err = errFlood
	}
	return s, err
}

// said is what a command says: all of its standard output, and the end of both.
type said struct {
	mu      sync.Mutex
	stdout  bytes.Buffer
	tail    []byte
	flooded bool
	flood   func()
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

const tailBytes = 16 << 10

func (s *said) out(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stdout.Len()+len(p) > MaxOutput {
		if !s.flooded {
			s.flood()
		}
		s.flooded = true
		return
	}
	s.stdout.Write(p)
	s.keep(p)
}

func (s *said) err(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(p)
}

func (s *said) keep(p []byte) {
	s.tail = append(s.tail, p[max(0, len(p)-tailBytes):]...)
	if n := len(s.tail) - tailBytes; n > 0 {
		s.tail = append(s.tail[:0], s.tail[n:]...)
	}
}

// end are the last lines, indented.
func (s *said) end(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return build.LastLines(s.tail, false, n)
}

// Short are the names of a side's results as people call them, in their order: without the
// package, where each side has one package (whose path may have changed), and without the
// number of CPUs that package testing puts behind all of them.
func Short(sides [][]bench.Result, format string) [][]string {
	cut := format == "gobench"
	cpus, first := "", true
	for _, results := range sides {
		for _, r := range results {
			cut = cut && r.Program == results[0].Program && strings.HasPrefix(r.Benchmark, r.Program+".")
			if s := suffix(r.Benchmark); first {
				cpus, first = s, false
			} else if s != cpus {
				cpus = ""
			}
		}
	}
	if format != "gobench" {
		cpus = ""
	}
	all := make([][]string, len(sides))
	for i, results := range sides {
		for _, r := range results {
			name := strings.TrimSuffix(r.Benchmark, cpus)
			if cut {
				name = strings.TrimPrefix(name, r.Program+".")
			}
			all[i] = append(all[i], name)
		}
	}
	return all
}

// suffix is the "-8" behind a benchmark's name; "" where there is none.
func suffix(name string) string {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || i+1 == len(name) || strings.Trim(name[i+1:], "0123456789") != "" {
		return ""
	}
	return name[i:]
}
