package store

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// BundleFile is the one file that an artifact, or the directory that a measuring
// container writes, may hold. Nothing else in it is ever read.
const BundleFile = "runs.json.gz"

// Limits on a bundle. It may come from a stranger's pull request, so it is read
// only as far as these, and a bundle that we write keeps to them too.
const (
	// MaxPacked is its size as a file, and that of the zip around it, in bytes.
	// Inflated it may have [MaxSize].
	MaxPacked = 5 << 20
	// MaxHistory is the number of runs that a roll-up may hold.
	MaxHistory = 1024

	maxNoted   = 10_000 // programs, skips and warnings of a run, each
	maxLog     = 200    // lines of the end of a verifier's log
	maxStrings = 4096   // bytes of any text in a run
	maxBeside  = 16     // names in a directory of a bundle
)

// bundleSchema is the version of [Bundle] that this package writes and reads.
const bundleSchema = 1

// A Bundle is what one artifact holds: the runs of one measuring job, or the
// roll-up of a branch.
type Bundle struct {
	Schema int `json:"schema"`
	// Base and Head were measured side by side; Base is nil where none could be
	// built. A roll-up has neither.
	Base *bench.Run `json:"base,omitempty"`
	Head *bench.Run `json:"head,omitempty"`
	// History are the runs of a roll-up, oldest first, each [Compact]. Only a
	// roll-up has it: what a pull request hands in can never claim a history.
	History []*bench.Run `json:"history,omitempty"`
}

// Encode packs a bundle. What [DecodeBundle] would refuse is an error.
func (b *Bundle) Encode() ([]byte, error) {
	out := *b
	out.Schema = bundleSchema
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("pack runs: %w", err)
	}
	text, err := json.Marshal(&out)
	if err != nil {
		return nil, fmt.Errorf("pack runs: %w", err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("pack runs: %d MB, at most %d", len(text)>>20, MaxSize>>20)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return nil, fmt.Errorf("pack runs: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack runs: %w", err)
	}
	if packed.Len() > MaxPacked {
		return nil, fmt.Errorf("pack runs: %d MB packed, at most %d", packed.Len()>>20, MaxPacked>>20)
	}
	return packed.Bytes(), nil
}

// DecodeBundle reads a packed bundle and checks all of it: sizes before anything
// is parsed, then the schema, the runs ([bench.Run.Check]: finite numbers, bounded
// counts) and the lengths of their texts.
func DecodeBundle(packed []byte) (*Bundle, error) {
	if len(packed) > MaxPacked {
		return nil, fmt.Errorf("read runs: %d MB packed, at most %d", len(packed)>>20, MaxPacked>>20)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read runs: not a packed file: %w", torn(err))
	}
	text, err := io.ReadAll(io.LimitReader(z, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", torn(err))
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("read runs: more than %d MB inflated", MaxSize>>20)
	}
	var b Bundle
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("read runs: %w", torn(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read runs: data after the runs")
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return &b, nil
}

// ReadBundle reads the bundle in a directory that a stranger's program could
// write. The file must be a regular one; whatever lies beside it is left alone,
// but a directory full of it is refused.
func ReadBundle(dir string) (*Bundle, error) {
	packed, err := readPacked(dir)
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", BundleFile, dir, err)
	}
	return DecodeBundle(packed)
}

func readPacked(dir string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if names, _ := d.Readdirnames(maxBeside + 1); len(names) > maxBeside {
		return nil, fmt.Errorf("more than %d files beside it", maxBeside)
	}
	// Lstat first: opening a pipe would wait forever, and a symlink is followed.
	was, err := root.Lstat(BundleFile)
	if err != nil {
		return nil, err
	}
	if !was.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(BundleFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !is.Mode().IsRegular() || !os.SameFile(was, is) {
		return nil, errors.New("replaced while it was read")
	}
	packed, err := io.ReadAll(io.LimitReader(f, MaxPacked+1))
	if err == nil && len(packed) > MaxPacked {
		err = fmt.Errorf("more than %d MB", MaxPacked>>20)
	}
	return packed, err
}

// UnzipBundle reads the bundle of an artifact as GitHub serves it: a zip of
// exactly one entry, [BundleFile]. No name in the zip becomes a path; any other
// entry, a directory, a symlink, a second file of that name or an entry that
// inflates beyond [MaxPacked] refuses the whole.
func UnzipBundle(archive []byte) (*Bundle, error) {
	// GitHub stores what is packed already, or nearly.
	if len(archive) > MaxPacked+4096 {
		return nil, fmt.Errorf("read artifact: %d MB, at most %d", len(archive)>>20, MaxPacked>>20)
	}
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	if len(z.File) != 1 {
		return nil, fmt.Errorf("read artifact: %d files, expected only %s", len(z.File), BundleFile)
	}
	f := z.File[0]
	switch {
	case f.Name != BundleFile:
		return nil, fmt.Errorf("read artifact: holds %.60q, expected only %s", f.Name, BundleFile)
	case !f.Mode().IsRegular():
		return nil, fmt.Errorf("read artifact: %s is not a regular file", BundleFile)
	case f.UncompressedSize64 > MaxPacked:
		return nil, fmt.Errorf("read artifact: %s has %d MB, at most %d", BundleFile, f.UncompressedSize64>>20, MaxPacked>>20)
	}
	in, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	defer in.Close()
	// The size in the header is only a claim.
	packed, err := io.ReadAll(io.LimitReader(in, MaxPacked+1))
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", torn(err))
	}
	return DecodeBundle(packed)
}

func (b *Bundle) check() error {
	switch {
	case b.Schema > bundleSchema:
		return fmt.Errorf("schema %d, this is %d: %w", b.Schema, bundleSchema, bench.ErrFuture)
	case b.Schema < 1:
		return fmt.Errorf("schema %d is not a bundle of runs", b.Schema)
	case len(b.History) > MaxHistory:
		return fmt.Errorf("%d runs, at most %d", len(b.History), MaxHistory)
	case len(b.History) > 0 && (b.Head != nil || b.Base != nil):
		return errors.New("both a measurement and a history")
	case b.Base != nil && b.Head == nil:
		return errors.New("a base without a head")
	case b.Head == nil && len(b.History) == 0:
		return errors.New("no runs")
	}
	for _, r := range slices.Concat([]*bench.Run{b.Base, b.Head}, b.History) {
		if r == nil {
			continue
		}
		if err := checkRun(r); err != nil {
			return fmt.Errorf("run %.40s: %w", r.ID, err)
		}
	}
	if slices.Contains(b.History, nil) {
		return errors.New("an empty run")
	}
	return nil
}

// checkRun bounds what [bench.Run.Check] leaves open.
func checkRun(r *bench.Run) error {
	if err := r.Check(); err != nil {
		return err
	}
	if max(len(r.Programs), len(r.Skipped), len(r.Warnings)) > maxNoted {
		return fmt.Errorf("more than %d programs, skips or warnings", maxNoted)
	}
	for i := range r.Programs {
		if len(r.Programs[i].LogTail) > maxLog {
			return fmt.Errorf("more than %d lines of a verifier's log", maxLog)
		}
	}
	var long string
	texts(r, func(s string) {
		if len(s) > maxStrings {
			long = s
		}
	})
	if long != "" {
		return fmt.Errorf("a text of %d bytes, at most %d: %.40q…", len(long), maxStrings, long)
	}
	return nil
}

// texts calls f with every text of a run.
func texts(r *bench.Run, f func(string)) {
	all := func(list ...string) {
		for _, s := range list {
			f(s)
		}
	}
	t := r.Testbed
	all(r.ID, r.Session, r.Tool, r.Revision.Name, r.Revision.Commit, r.Revision.Branch,
		t.Name, t.Kernel, t.Arch, t.CPU, t.Clang, t.Virtualization)
	all(r.Warnings...)
	all(r.Suites...)
	for i := range r.Programs {
		p := &r.Programs[i]
		all(p.Program, p.Object, p.Type, string(p.Outcome), p.Reason, p.LogPath, p.Digest)
		all(p.LogTail...)
	}
	for i := range r.Results {
		res := &r.Results[i]
		all(res.Benchmark, res.Program, res.Measure, string(res.Kind), res.Path, res.Answer, res.Noisy)
		for _, l := range res.Lines {
			all(l.File, l.Text, l.Function)
		}
		all(res.Warnings...)
		for _, s := range res.Sites {
			all(s.File, s.Text)
			all(s.Stack...)
		}
	}
	for _, s := range r.Skipped {
		all(s.Name, s.Reason, s.Hint)
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		all(c.Program)
		for _, l := range c.Lines {
			all(l.File, l.Text, l.Function)
		}
	}
}

// RollUp makes the bundle of the newest n runs that a history is held against,
// each once and [Compact]. Of no runs it is none that can be encoded.
func RollUp(runs []*bench.Run, n int) *Bundle {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *bench.Run) bool { return r == nil })
	slices.SortStableFunc(runs, func(a, b *bench.Run) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID))
	})
	runs = slices.CompactFunc(runs, func(a, b *bench.Run) bool { return a.ID == b.ID })
	n = min(n, MaxHistory)
	b := &Bundle{Schema: bundleSchema}
	for _, r := range runs[max(0, len(runs)-n):] {
		b.History = append(b.History, Compact(r))
	}
	return b
}

// Compact is a run with one sample a result, the median, which is all that a
// history is read for: a roll-up of 64 runs then is smaller than one of them. The
// raw samples stay in the run's own artifact.
func Compact(r *bench.Run) *bench.Run {
	out := *r
	out.Changes = nil
	out.Results = slices.Clone(r.Results)
	for i := range out.Results {
		res := &out.Results[i]
		res.Looks, res.Final, res.Warnings, res.Lines, res.Sites, res.Seconds = nil, false, nil, nil, nil, 0
		if len(res.Samples) > 1 {
			res.Samples = []bench.Sample{{
				Value:  median(res.Samples, func(s bench.Sample) float64 { return s.Value }),
				Floor:  median(res.Samples, func(s bench.Sample) float64 { return s.Floor }),
				Offset: -1,
			}}
		}
	}
	out.Programs = slices.Clone(r.Programs)
	for i := range out.Programs {
		out.Programs[i].LogTail, out.Programs[i].LogPath = nil, ""
	}
	return &out
}

// median is that of package stats, which this package does not import: of an even
// number, halfway between the two in the middle.
func median(samples []bench.Sample, of func(bench.Sample) float64) float64 {
	x := make([]float64, len(samples))
	for i, s := range samples {
		x[i] = of(s)
	}
	slices.Sort(x)
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return x[n/2-1] + (x[n/2]-x[n/2-1])/2
}
