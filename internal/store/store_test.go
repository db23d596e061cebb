package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ebpf-bench-gate/bench"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// testRun is the n-th run of a branch, n hours after start.
func testRun(n int, branch, testbed string) *bench.Run {
	return &bench.Run{
		Schema:   bench.SchemaVersion,
		ID:       fmt.Sprintf("run-%d", n),
		Time:     start.Add(time.Duration(n) * time.Hour),
		Revision: bench.Revision{Name: "HEAD", Branch: branch},
		Testbed:  bench.Testbed{Name: testbed, Kernel: "6.11", JIT: true},
		Results: []bench.Result{{
			Benchmark: "p/x", Program: "p", Measure: bench.Latency, Kind: bench.Micro,
			Samples: []bench.Sample{{Round: 0, Value: 98.6, Floor: 31.25, Offset: -1}, {Round: 1, Value: 99.1}},
		}},
	}
}

func put(t *testing.T, s *Store, r *bench.Run) string {
	t.Helper()
	path, err := s.Put(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "repo", DefaultDir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ids(entries []Entry) []string {
	var got []string
	for _, e := range entries {
		got = append(got, e.ID)
	}
	return got
}

// list fails on problems.
func list(t *testing.T, s *Store, f Filter) []Entry {
	t.Helper()
	entries, problems := listAll(t, s, f)
	for _, p := range problems {
		t.Errorf("problem: %v", p)
	}
	return entries
}

func listAll(t *testing.T, s *Store, f Filter) ([]Entry, []Problem) {
	t.Helper()
	entries, problems, err := s.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return entries, problems
}

func TestPutListLoad(t *testing.T) {
	s := newStore(t)
	if got := list(t, s, Filter{}); got != nil {
		t.Errorf("a store that does not exist holds %v", got)
	}
	in := testRun(2, "main", "lab")
	path := put(t, s, in)
	put(t, s, testRun(1, "main", "lab"))
	put(t, s, testRun(3, "main", "Lab"))
	put(t, s, testRun(4, "", "lab"))

	for _, tt := range []struct {
		f    Filter
		want []string
	}{
		{Filter{}, []string{"run-1", "run-2", "run-3", "run-4"}},
		{Filter{Branch: "main"}, []string{"run-1", "run-2", "run-3"}},
		{Filter{Testbed: "lab"}, []string{"run-1", "run-2", "run-4"}},
		{Filter{Branch: "main", Testbed: "Lab"}, []string{"run-3"}},
		{Filter{Branch: "mai"}, nil},
	} {
		if got := ids(list(t, s, tt.f)); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.f, got, tt.want)
		}
	}
	e := list(t, s, Filter{})[1]
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Entry{Path: path, ID: in.ID, Time: in.Time, Revision: in.Revision, Testbed: in.Testbed, Results: 1, Size: info.Size()}
	if d := cmp.Diff(want, e, cmpopts.IgnoreUnexported(Entry{})); d != "" {
		t.Error(d)
	}
	out, err := s.Load(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out); d != "" {
		t.Error(d)
	}
	if got, _ := os.ReadFile(filepath.Join(s.String(), ".gitignore")); string(got) != "*\n" {
		t.Errorf(".gitignore holds %q", got)
	}
}

func TestPutNeverOverwrites(t *testing.T) {
	s := newStore(t)
	path := put(t, s, testRun(1, "main", "lab"))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := testRun(1, "main", "lab")
	other.Results[0].Samples[0].Value = 1
	if _, err := s.Put(t.Context(), other); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want fs.ErrExist", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the first run was changed")
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("%d files, want the run alone", len(files))
	}
}

func TestPutRefuses(t *testing.T) {
	s := newStore(t)
	for name, edit := range map[string]func(*bench.Run){
		"id that is a path": func(r *bench.Run) { r.ID = "../x" },
		"long branch":       func(r *bench.Run) { r.Revision.Branch = strings.Repeat("x", maxName+1) },
		"no schema":         func(r *bench.Run) { r.Schema = 0 },
	} {
		r := testRun(1, "main", "lab")
		edit(r)
		if path, err := s.Put(t.Context(), r); err == nil {
			t.Errorf("%s: saved as %s", name, path)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), file); err == nil {
		t.Error("a file is no store")
	}
}

var hostileNames = []string{
	"", "main", "Main", "MAIN", "feat/x", "feat%2fx", "feat", "#1", "a b", " a", "a ", "ünïcödé", "u\u0308", "ü",
	".", "..", "../../etc/passwd", "/abs", "a/../b", ".hidden", "x.", "x..y", "a.b", "con", "CON", "con.txt", "com1", "com",
	"nul", "+", "a+", "a+/b", "%", "%25", "%zz", "\x00", "\n", "a\\b", "c:", "*?", "~", "-x", "tmp-1", ".tmp-1",
	strings.Repeat("x", 300), strings.Repeat("x", 301), strings.Repeat("ü", 150), strings.Repeat("/", 300),
	strings.Repeat("x", 119) + "/y", strings.Repeat("x", 120), strings.Repeat("x", 121), strings.Repeat("x", maxName),
	strings.Repeat("a.", 200) + "b", "\xff\xfe",
}

func TestNamesAreReversible(t *testing.T) {
	seen := map[string]string{}
	for _, name := range hostileNames {
		path := escape(name)
		if got, err := unescape(path); err != nil || got != name {
			t.Errorf("%.40q -> %.80q -> %.40q, %v", name, path, got, err)
		}
		// File systems that do not tell case apart.
		if other, ok := seen[strings.ToLower(path)]; ok {
			t.Errorf("%.40q and %.40q share %.40q", name, other, path)
		}
		seen[strings.ToLower(path)] = name
		if !filepath.IsLocal(path) {
			t.Errorf("%.40q leads out by %q", name, path)
		}
		parts := strings.Split(path, "/")
		for i, part := range parts {
			if part == "" || len(part) > 143 || part == "." || part == ".." || strings.HasSuffix(part, ".") {
				t.Errorf("%.40q has the part %q", name, part)
			}
			if (i < len(parts)-1) != strings.HasSuffix(part, more) {
				t.Errorf("%.40q: part %d of %d is %q", name, i, len(parts), part)
			}
		}
	}
	for _, foreign := range []string{"Main", "feat%2Fx", "%61", "a%", "a%2", "%zz", ".hidden", "a b", "con"} {
		if name, err := unescape(foreign); err == nil {
			t.Errorf("%q is %q, want an error: it has another place", foreign, name)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range hostileNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		path := escape(name)
		if got, err := unescape(path); err != nil || got != name {
			t.Errorf("%q -> %q -> %q, %v", name, path, got, err)
		}
		if !filepath.IsLocal(path) {
			t.Errorf("%q leads out by %q", name, path)
		}
		if back, err := unescape(name); err == nil && escape(back) != name {
			t.Errorf("%q and %q both name %q", name, escape(back), back)
		}
	})
}

func TestHostileNames(t *testing.T) {
	s := newStore(t)
	for i, name := range hostileNames {
		r := testRun(i, name, "lab")
		r.Testbed.Name = hostileNames[len(hostileNames)-1-i]
		if !bytes.Equal([]byte(name), bytes.ToValidUTF8([]byte(name), nil)) {
			continue // JSON cannot hold it
		}
		if r.Testbed.Name == "\xff\xfe" {
			r.Testbed.Name = "lab"
		}
		put(t, s, r)
		got := list(t, s, Filter{Branch: name, Testbed: r.Testbed.Slug()})
		if name != "" && (len(got) != 1 || got[0].ID != r.ID) {
			t.Errorf("%.40q: %d entries", name, len(got))
		}
	}
	if got, want := len(list(t, s, Filter{})), len(hostileNames)-1; got != want {
		t.Errorf("%d entries, want %d", got, want)
	}
	above, err := filepath.Glob(filepath.Join(filepath.Dir(s.String()), "*"))
	if err != nil || len(above) != 1 {
		t.Errorf("beside the store: %q, %v", above, err)
	}
}

func TestListNamesProblems(t *testing.T) {
	s := newStore(t)
	good := put(t, s, testRun(1, "main", "lab"))
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(good)
	file := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pack := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	var future bytes.Buffer
	r := testRun(2, "main", "lab")
	if err := bench.Encode(&future, r); err != nil {
		t.Fatal(err)
	}
	futureJSON := bytes.Replace(future.Bytes(), []byte(`"schema": 1`), []byte(`"schema": 99`), 1)
	flipped := slices.Clone(data)
	flipped[len(flipped)-6] ^= 1 // the checksum

	want := map[string]string{}
	for _, p := range []struct {
		name string
		data []byte
		want string
	}{
		{"a-torn.json.gz", data[:len(data)/2], "cut off"},
		{"b-short.json.gz", data[:5], "cut off"},
		{"c-empty.json.gz", nil, "empty"},
		{"d-future.json.gz", pack(futureJSON), "later version"},
		{"e-foreign.json.gz", pack([]byte(`{"hello": 1}`)), "schema 0"},
		{"f-garbage.json.gz", []byte("garbage"), "invalid character"},
		{"g-bomb.json.gz", pack(bytes.Repeat([]byte(" "), MaxSize+1)), "more than 50 MB"},
		{"h-copy.json.gz", data, "does not belong here"},
		{"i-trailing.json.gz", append(slices.Clone(data), data...), "data after the run"},
		{"j-checksum.json.gz", flipped, "checksum"},
		{"k-notes.txt", []byte("x"), "not a run"},
	} {
		file(p.name, p.data)
		want[p.name] = p.want
	}
	if runtime.GOOS != "windows" {
		if err := os.Symlink(good, filepath.Join(dir, "l-link.json.gz")); err != nil {
			t.Fatal(err)
		}
		want["l-link.json.gz"] = "not a regular file"
	}
	if err := os.Mkdir(filepath.Join(dir, "m-dir.json.gz"), 0o755); err != nil {
		t.Fatal(err)
	}
	want["m-dir.json.gz"] = "not a regular file"
	file(tempPrefix+"writing", data[:9]) // no problem: it is being written
	for _, p := range []string{"Foreign Dir", "file"} {
		want[p] = "not a directory of runs"
	}
	if err := os.Mkdir(filepath.Join(s.String(), runsDir, "Foreign Dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.String(), runsDir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	entries, problems := listAll(t, s, Filter{})
	if got := ids(entries); !slices.Equal(got, []string{"run-1"}) {
		t.Errorf("entries %v, want the good one alone", got)
	}
	for _, p := range problems {
		name := filepath.Base(p.Path)
		if want[name] == "" || !strings.Contains(p.Err.Error(), want[name]) {
			t.Errorf("%s: %q, want %q", name, p.Err, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is not named", name)
	}
	// Inflating it takes its time.
	if err := os.Remove(filepath.Join(dir, "g-bomb.json.gz")); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Prune(t.Context(), Retention{Keep: 0, Before: start.Add(999 * time.Hour)})
	if err != nil || len(removed) != 1 {
		t.Errorf("Prune: %v, %v", ids(removed), err)
	}
	if _, after := listAll(t, s, Filter{}); len(after) != len(problems)-1 {
		t.Errorf("Prune left %d of %d problems", len(after), len(problems)-1)
	}
}

// A moved directory would make runs of one branch those of another.
func TestMovedRunsAreNotCounted(t *testing.T) {
	s := newStore(t)
	path := put(t, s, testRun(1, "evil", "lab"))
	evil := filepath.Dir(filepath.Dir(path))
	if err := os.Rename(evil, filepath.Join(filepath.Dir(evil), "main")); err != nil {
		t.Fatal(err)
	}
	entries, problems := listAll(t, s, Filter{Branch: "main"})
	if len(entries) != 0 || len(problems) != 1 {
		t.Errorf("%v, %v", ids(entries), problems)
	}
}

// A checkout may hold symlinks that lead anywhere.
func TestPutFollowsNoSymlinkOut(t *testing.T) {
	s := newStore(t)
	outside := t.TempDir()
	if err := os.MkdirAll(s.String(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.String(), runsDir)); err != nil {
		t.Skip(err)
	}
	if path, err := s.Put(t.Context(), testRun(1, "main", "lab")); err == nil {
		t.Errorf("saved as %s", path)
	}
	if files, _ := os.ReadDir(outside); len(files) > 0 {
		t.Errorf("written outside: %v", files)
	}
}

func TestConcurrentWriters(t *testing.T) {
	s := newStore(t)
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			own, err := Open(t.Context(), s.String())
			if err != nil {
				t.Error(err)
				return
			}
			for i := range each {
				if _, err := own.Put(t.Context(), testRun(w*each+i, fmt.Sprintf("b%d", i%3), "lab")); err != nil {
					t.Error(err)
				}
				if _, problems, err := own.List(t.Context(), Filter{}); err != nil || len(problems) > 0 {
					t.Errorf("a reader saw %v, %v", problems, err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(list(t, s, Filter{})); got != writers*each {
		t.Errorf("%d runs, want %d", got, writers*each)
	}
	// Of many that put the same run, one does.
	var mu sync.Mutex
	saved := 0
	for range writers {
		wg.Go(func() {
			_, err := s.Put(t.Context(), testRun(1000, "main", "lab"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				saved++
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if saved != 1 {
		t.Errorf("%d writers saved one run", saved)
	}
}

func TestPrune(t *testing.T) {
	for _, tt := range []struct {
		name string
		keep Retention
		want []string // what stays
	}{
		{"newest of each", Retention{Keep: 1}, []string{"run-2", "run-4"}},
		{"age", Retention{Before: start.Add(2 * time.Hour)}, []string{"run-2", "run-3", "run-4"}},
		{"both", Retention{Keep: 2, Before: start.Add(4 * time.Hour)}, []string{"run-1", "run-2", "run-3", "run-4"}},
		{"dry", Retention{Keep: 1, DryRun: true}, []string{"run-0", "run-1", "run-2", "run-3", "run-4"}},
	} {
		s := newStore(t)
		for n, branch := range []string{"main", "main", "main", "x", "x"} {
			put(t, s, testRun(n, branch, "lab"))
		}
		removed, err := s.Prune(t.Context(), tt.keep)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		left := ids(list(t, s, Filter{}))
		if !slices.Equal(left, tt.want) {
			t.Errorf("%s: left %v, want %v", tt.name, left, tt.want)
		}
		if tt.keep.DryRun && len(removed) != 3 || !tt.keep.DryRun && len(removed) != 5-len(left) {
			t.Errorf("%s: told %v", tt.name, ids(removed))
		}
	}
	if _, err := newStore(t).Prune(t.Context(), Retention{}); err == nil {
		t.Error("everything was removed without a word")
	}
}

func TestReadFile(t *testing.T) {
	r := testRun(1, "main", "lab")
	path := put(t, newStore(t), r)
	plain := filepath.Join(t.TempDir(), "run.json")
	f, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bench.Encode(f, r), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, plain} {
		got, err := ReadFile(p)
		if err != nil {
			t.Error(err)
			continue
		}
		if d := cmp.Diff(r, got); d != "" {
			t.Errorf("%s: %s", p, d)
		}
	}
	data, _ := os.ReadFile(plain)
	if err := os.WriteFile(plain, bytes.Replace(data, []byte(`"schema": 1`), []byte(`"schema": 2`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(plain); !errors.Is(err, bench.ErrFuture) {
		t.Errorf("%v, want bench.ErrFuture", err)
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "nosuch")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
}
