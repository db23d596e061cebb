package store

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

func bundleRun(id string, values ...float64) *bench.Run {
	r := &bench.Run{Schema: 1, ID: id, Time: time.Unix(1e9, 0).UTC(), Revision: bench.Revision{Branch: "main"}}
	res := bench.Result{Benchmark: "p/c", Program: "p", Measure: bench.Latency, Kind: bench.Micro}
	for i, v := range values {
		res.Samples = append(res.Samples, bench.Sample{Round: i, Value: v, Floor: v / 10})
	}
	if len(values) > 0 {
		res.Looks = []int{len(values)}
	}
	r.Results = []bench.Result{res}
	return r
}

func packed(t *testing.T, b *Bundle) []byte {
	t.Helper()
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func gz(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	z.Close()
	return b.Bytes()
}

type zipped struct {
	name string
	data []byte
	mode fs.FileMode
}

func archive(t *testing.T, files ...zipped) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		if f.mode != 0 {
			h.SetMode(f.mode)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	return b.Bytes()
}

func TestBundleRoundTrip(t *testing.T) {
	in := &Bundle{Base: bundleRun("a", 1, 2, 3), Head: bundleRun("b", 4, 5, 6)}
	data := packed(t, in)
	got, err := UnzipBundle(archive(t, zipped{name: BundleFile, data: data}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Base.ID != "a" || got.Head.ID != "b" || got.Head.Results[0].Samples[2].Value != 6 {
		t.Errorf("%+v", got)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, BundleFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = ReadBundle(dir); err != nil || got.Head.ID != "b" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnzipBundleRefuses(t *testing.T) {
	good := packed(t, &Bundle{Head: bundleRun("a", 1)})
	entry := zipped{name: BundleFile, data: good}
	for name, tt := range map[string]struct {
		archive []byte
		want    string
	}{
		"no zip":        {[]byte("hello"), "zip"},
		"cut off":       {archive(t, entry)[:60], "zip"},
		"empty":         {archive(t), "0 files"},
		"two files":     {archive(t, entry, zipped{name: "x", data: good}), "2 files"},
		"the same":      {archive(t, entry, entry), "2 files"},
		"other name":    {archive(t, zipped{name: "run.json", data: good}), "expected only"},
		"traversal":     {archive(t, zipped{name: "../" + BundleFile, data: good}), "expected only"},
		"backslash":     {archive(t, zipped{name: `..\` + BundleFile, data: good}), "expected only"},
		"absolute":      {archive(t, zipped{name: "/" + BundleFile, data: good}), "expected only"},
		"in directory":  {archive(t, zipped{name: "a/" + BundleFile, data: good}), "expected only"},
		"directory":     {archive(t, zipped{name: BundleFile, mode: fs.ModeDir | 0o755}), "not a regular"},
		"symlink":       {archive(t, zipped{name: BundleFile, data: []byte("/etc/passwd"), mode: fs.ModeSymlink | 0o777}), "not a regular"},
		"pipe":          {archive(t, zipped{name: BundleFile, mode: fs.ModeNamedPipe | 0o666}), "not a regular"},
		"nested zip":    {archive(t, zipped{name: BundleFile, data: archive(t, entry)}), "not a packed file"},
		"not packed":    {archive(t, zipped{name: BundleFile, data: []byte(`{"schema":1}`)}), "not a packed file"},
		"zip bomb":      {archive(t, zipped{name: BundleFile, data: make([]byte, 6<<20)}), "at most 5"},
		"gzip bomb":     {archive(t, zipped{name: BundleFile, data: gz(t, strings.Repeat(" ", MaxSize+10))}), "inflated"},
		"too big":       {make([]byte, MaxPacked+5000), "at most 5"},
		"long name":     {archive(t, zipped{name: strings.Repeat("x", 65535), data: good}), "expected only"},
		"control":       {archive(t, zipped{name: BundleFile + "\x00.txt", data: good}), "expected only"},
		"lines":         {archive(t, zipped{name: "x\n::set-output name=verdict::pass\n" + BundleFile, data: good}), `holds "x\n`},
		"an env file":   {archive(t, zipped{name: BundleFile, data: []byte("LD_PRELOAD=/tmp/evil.so\nPATH<<EOF\n/evil\nEOF\n")}), "not a packed file"},
		"a number":      {archive(t, zipped{name: "pr_number", data: []byte("1")}), "expected only"},
		"encrypted":     {bytes.ReplaceAll(archive(t, entry), []byte{20, 0, 8, 0, 8, 0}, []byte{20, 0, 9, 0, 99, 0}), "unsupported"},
		"many, it says": {bytes.ReplaceAll(archive(t, entry), []byte{1, 0, 1, 0}, []byte{0xfe, 0xff, 0xfe, 0xff}), "EOF"},
	} {
		if b, err := UnzipBundle(tt.archive); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want an error with %q", name, b, err, tt.want)
		}
	}
}

// What a zip and what is packed in it say besides of names is no name of a file: the
// local header, the path in Unicode, what gzip kept.
func TestUnzipBundleNamesNothing(t *testing.T) {
	var text bytes.Buffer
	z, err := gzip.NewReader(bytes.NewReader(packed(t, &Bundle{Head: bundleRun("a", 1)})))
	if err != nil {
		t.Fatal(err)
	}
	var named bytes.Buffer
	w := gzip.NewWriter(&named)
	w.Name, w.Comment, w.Extra = "../../evil", "evil", []byte("evil")
	if _, err := text.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var b bytes.Buffer
	a := zip.NewWriter(&b)
	name := "../../evil.gz"
	unicode := append([]byte{0x75, 0x70, byte(5 + len(name)), 0, 1, 0, 0, 0, 0}, name...)
	in, err := a.CreateHeader(&zip.FileHeader{Name: BundleFile, Method: zip.Deflate, Extra: unicode, Comment: name})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(named.Bytes()); err != nil {
		t.Fatal(err)
	}
	a.Close()
	data := b.Bytes()
	i := bytes.Index(data, []byte(BundleFile)) // that of the local header comes first
	copy(data[i:], "../evil/x.gz")
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got, err := UnzipBundle(data); err != nil || got.Head.ID != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	if found, _ := filepath.Glob("../../*"); len(found) != 1 || filepath.Base(found[0]) != "a" {
		t.Errorf("written: %v", found)
	}
}

// A header that lies about the size must not help a bomb.
func TestUnzipBundleLyingSize(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	bomb := make([]byte, 6<<20)
	w, err := z.CreateHeader(&zip.FileHeader{Name: BundleFile, Method: zip.Deflate})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bomb); err != nil {
		t.Fatal(err)
	}
	z.Close()
	data := b.Bytes()
	size := []byte{0, 0, 0x60, 0} // 6 MB, little endian
	if n := bytes.Count(data, size); n == 0 {
		t.Fatal("no size to forge")
	}
	if got, err := UnzipBundle(bytes.ReplaceAll(data, size, []byte{16, 0, 0, 0})); err == nil {
		t.Errorf("%+v", got)
	}
}

func TestDecodeBundleRefuses(t *testing.T) {
	run := `{"schema":1,"id":"a","results":[{"benchmark":"b","measure":"latency","samples":[{"round":0,"value":%s}]}]}`
	head := func(value string) string { return `{"schema":1,"head":` + fmt.Sprintf(run, value) + `}` }
	if _, err := DecodeBundle(gz(t, head("1"))); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", maxStrings+1)
	for name, tt := range map[string]struct{ text, want string }{
		"empty":         {"", "EOF"},
		"no runs":       {`{"schema":1}`, "no runs"},
		"future":        {`{"schema":2}`, "later version"},
		"no schema":     {strings.Replace(head("1"), `"schema":1`, `"schema":0`, 1), "not a bundle"},
		"future run":    {strings.Replace(head("1"), `{"schema":1,"id"`, `{"schema":99,"id"`, 1), "later version"},
		"infinite":      {head("1e999"), "cannot unmarshal"},
		"NaN":           {head("NaN"), "invalid character"},
		"text":          {head(`"1"`), "cannot unmarshal"},
		"two":           {head("1") + head("1"), "data after"},
		"base only":     {strings.Replace(head("1"), "head", "base", 1), "without a head"},
		"both":          {strings.Replace(head("1"), `"head"`, `"history":[`+fmt.Sprintf(run, "1")+`],"head"`, 1), "both a measurement and a history"},
		"null history":  {`{"schema":1,"history":[null]}`, "an empty run"},
		"bad id":        {strings.Replace(head("1"), `"a"`, `"../a"`, 1), "id"},
		"long text":     {strings.Replace(head("1"), `"results"`, `"tool":"`+long+`","results"`, 1), "a text of 4097 bytes"},
		"long source":   {strings.Replace(head("1"), `"samples"`, `"lines":[{"text":"`+long+`"}],"samples"`, 1), "a text of"},
		"long time":     {strings.Replace(head("1"), `"samples"`, `"seconds":1e300,"samples"`, 1), "seconds is not"},
		"long log line": {strings.Replace(head("1"), `"results"`, `"programs":[{"program":"p","log_tail":["`+long+`"]}],"results"`, 1), "a text of"},
		"long log":      {strings.Replace(head("1"), `"results"`, `"programs":[{"program":"p","log_tail":[""`+strings.Repeat(`,""`, maxLog)+`]}],"results"`, 1), "lines of a verifier's log"},
		"many warnings": {strings.Replace(head("1"), `"results"`, `"warnings":[""`+strings.Repeat(`,""`, maxNoted)+`],"results"`, 1), "more than 10000"},
		"many runs":     {`{"schema":1,"history":[{}` + strings.Repeat(`,{}`, MaxHistory) + `]}`, "1025 runs"},
		"deep":          {strings.Repeat("[", 20000), "exceeded max depth"},
	} {
		if b, err := DecodeBundle(gz(t, tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want an error with %q", name, b, err, tt.want)
		}
	}
	if b, err := DecodeBundle(gz(t, head("1"))[:30]); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("cut off: %+v, %v", b, err)
	}
}

func TestReadBundleRefuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symlinks")
	}
	good := packed(t, &Bundle{Head: bundleRun("a", 1)})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		make func(dir, file string) error
		want string
	}{
		"nothing":   {func(string, string) error { return nil }, "no such file"},
		"symlink":   {func(_, file string) error { return os.Symlink(secret, file) }, "not a regular file"},
		"relative":  {func(dir, file string) error { return os.Symlink("x", file) }, "not a regular file"},
		"directory": {func(_, file string) error { return os.Mkdir(file, 0o700) }, "not a regular file"},
		"pipe":      {func(_, file string) error { return mkfifo(file) }, "not a regular file"},
		"big":       {func(_, file string) error { return os.WriteFile(file, make([]byte, MaxPacked+1), 0o600) }, "more than 5 MB"},
		"flood": {func(dir, file string) error {
			for i := range maxBeside + 1 {
				if err := os.WriteFile(fmt.Sprint(file, i), nil, 0o600); err != nil {
					return err
				}
			}
			return os.WriteFile(file, good, 0o600)
		}, "files beside it"},
	} {
		dir := t.TempDir()
		if err := tt.make(dir, filepath.Join(dir, BundleFile)); err != nil {
			t.Fatal(name, err)
		}
		if b, err := ReadBundle(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want an error with %q", name, b, err, tt.want)
		}
	}
}

func TestEncodeBundleRefuses(t *testing.T) {
	for name, b := range map[string]*Bundle{
		"empty": {},
		"both":  {Head: bundleRun("a", 1), History: []*bench.Run{bundleRun("b", 1)}},
		"id":    {Head: bundleRun("A", 1)},
	} {
		if _, err := b.Encode(); err == nil {
			t.Errorf("%s: packed", name)
		}
	}
}

func TestRollUp(t *testing.T) {
	var runs []*bench.Run
	for i := range 70 {
		r := bundleRun(fmt.Sprintf("r-%02d", i), 3, 1, 2, 10)
		r.Time = time.Unix(int64(1e9-i), 0) // newest first
		r.Programs = []bench.ProgramResult{{Program: "p", LogTail: []string{"x"}, Digest: "d"}}
		runs = append(runs, r, nil)
	}
	runs = append(runs, runs[0])
	b := RollUp(runs, 64)
	if len(b.History) != 64 || b.History[63].ID != "r-00" || b.History[0].ID != "r-63" {
		t.Fatalf("%d runs, from %s to %s", len(b.History), b.History[0].ID, b.History[len(b.History)-1].ID)
	}
	res := b.History[0].Results[0]
	if len(res.Samples) != 1 || res.Samples[0].Value != 2.5 || res.Samples[0].Floor != 0.25 || res.Looks != nil {
		t.Errorf("%+v", res)
	}
	if p := b.History[0].Programs[0]; p.LogTail != nil || p.Digest != "d" {
		t.Errorf("%+v", p)
	}
	if len(runs[0].Results[0].Samples) != 4 || runs[0].Programs[0].LogTail == nil {
		t.Error("the runs themselves were changed")
	}
	if _, err := DecodeBundle(packed(t, b)); err != nil {
		t.Error(err)
	}
	if _, err := RollUp(nil, 64).Encode(); err == nil {
		t.Error("a roll-up of nothing")
	}
}
