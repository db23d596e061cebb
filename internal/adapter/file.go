package adapter

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// ErrUnknown is that a file has none of the formats.
var ErrUnknown = errors.New("the file has no format that gate reads")

// ReadFile reads a file, compressed by gzip or not, or a directory of Criterion's, in the
// named format; the empty name is the one that is detected, or [ErrUnknown]. A run of
// gate is unknown here.
func ReadFile(name, format string, o Options) (*Set, Format, error) {
	o.File = cmp.Or(o.File, name)
	info, err := os.Stat(name)
	if err != nil {
		return nil, Format{}, err
	}
	if info.IsDir() {
		f, _ := Lookup("criterion")
		set, err := readCriterionDir(name)
		return set, f, err
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, Format{}, err
	}
	defer in.Close()
	if base := filepath.Base(name); o.Benchmark == "" && (base == "sample.json" || base == "estimates.json") {
		if o.Benchmark, err = criterionName(os.DirFS(filepath.Dir(name)), "."); err != nil {
			return nil, Format{}, err
		}
	}
	set, f, err := ReadAny(in, format, o)
	if err == nil && set.Time.IsZero() && info.Mode().IsRegular() {
		set.Time = info.ModTime()
	}
	return set, f, err
}

// ReadAny is [ReadFile] of a stream.
func ReadAny(r io.Reader, format string, o Options) (*Set, Format, error) {
	in := bufio.NewReaderSize(r, HeadSize)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, Format{}, &bench.Diagnostic{Pos: bench.Pos{File: o.File}, Message: err.Error()}
		}
		in = bufio.NewReaderSize(z, HeadSize)
	}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark))
	}
	var f Format
	var ok bool
	if format != "" {
		f, ok = Lookup(format)
	} else {
		head, err := in.Peek(HeadSize)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, Format{}, err
		}
		f, ok = Detect(head)
	}
	if !ok {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil, Format{}, fmt.Errorf("%w: it is empty", ErrUnknown)
		}
		return nil, Format{}, ErrUnknown
	}
	set, err := Read(in, f, o)
	return set, f, err
}

// ReadRoot is [ReadFile] of a file or directory in a directory that somebody else fills:
// no link leads out of it.
func ReadRoot(root *os.Root, name, format string, o Options) (*Set, Format, error) {
	o.File = cmp.Or(o.File, name)
	info, err := root.Stat(name)
	if err != nil {
		return nil, Format{}, err
	}
	if info.IsDir() {
		below, err := root.OpenRoot(name)
		if err != nil {
			return nil, Format{}, err
		}
		defer below.Close()
		f, _ := Lookup("criterion")
		set, err := readCriterionRoot(below, o.File)
		return set, f, err
	}
	if !info.Mode().IsRegular() {
		return nil, Format{}, fmt.Errorf("%s is not a regular file", o.File)
	}
	in, err := root.Open(name)
	if err != nil {
		return nil, Format{}, err
	}
	defer in.Close()
	return ReadAny(in, format, o)
}

// readCriterionDir reads the newest results of every benchmark below a directory.
// Symbolic links are not followed.
func readCriterionDir(dir string) (*Set, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readCriterionRoot(root, dir)
}

func readCriterionRoot(root *os.Root, dir string) (*Set, error) {
	all := newSet()
	f, _ := Lookup("criterion")
	err := fs.WalkDir(root.FS(), ".", func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.Count(at, "/") > 32:
			return fmt.Errorf("%s: directories nested more than 32 deep", at)
		case !d.IsDir() || d.Name() != "new":
			return nil
		}
		for _, name := range []string{"sample.json", "estimates.json"} {
			file := path.Join(at, name)
			info, err := fs.Stat(root.FS(), file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is not a regular file", file)
			}
			in, err := root.Open(file)
			if err != nil {
				return err
			}
			defer in.Close()
			o := Options{File: filepath.Join(dir, filepath.FromSlash(file))}
			if o.Benchmark, err = criterionName(root.FS(), at); err != nil {
				return err
			}
			set, err := Read(in, f, o)
			if err != nil {
				return err
			}
			set.Time = info.ModTime()
			if err := all.Join(set); err != nil {
				return err
			}
			break
		}
		return fs.SkipDir
	})
	if err == nil && all.Results() == 0 {
		err = &bench.Diagnostic{Pos: bench.Pos{File: dir}, Message: "the directory has no results of Criterion in it", Hint: "target/criterion, after cargo bench"}
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// criterionName is the name of the benchmark whose results lie in a directory: as
// benchmark.json says, or what the path does.
func criterionName(files fs.FS, dir string) (string, error) {
	in, err := files.Open(path.Join(dir, "benchmark.json"))
	if errors.Is(err, fs.ErrNotExist) {
		if dir == "." {
			return "", nil
		}
		return path.Dir(dir), nil
	}
	if err != nil {
		return "", err
	}
	defer in.Close()
	var b struct {
		Name string `json:"full_id"`
	}
	if err := json.NewDecoder(io.LimitReader(in, maxLine)).Decode(&b); err != nil {
		return "", fmt.Errorf("%s: %w", path.Join(dir, "benchmark.json"), err)
	}
	return clean(b.Name), nil
}
