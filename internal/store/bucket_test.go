package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/org/ebpf-bench-gate/bench"
)

// An s3Server is a server of S3's protocol, and how many requests it had.
type s3Server struct {
	*httptest.Server
	objects  *s3mem.Backend
	requests atomic.Int64
}

// newS3 starts a server with a bucket, which the environment has credentials of.
func newS3(t *testing.T) *s3Server {
	t.Helper()
	s := &s3Server{objects: s3mem.New()}
	handler := gofakes3.New(s.objects).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not to be told")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	if err := s.objects.CreateBucket("runs"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *s3Server) where(prefix string) string {
	return "s3://runs" + prefix + "?region=eu-central-1&endpoint=" + url.QueryEscape(s.URL)
}

func open(t *testing.T, where string) *Store {
	t.Helper()
	s, err := Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A googleServer is a server of the part of Google's JSON API that a store uses, as its
// documentation says it: pages, generations and their conditions.
type googleServer struct {
	mu      sync.Mutex
	objects map[string][]byte
	fail    int // so many requests more are answered with 503
}

func (g *googleServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const list, upload = "/storage/v1/b/runs/o", "/upload/storage/v1/b/runs/o"
	path, q := r.URL.Path, r.URL.Query()
	switch {
	case path == upload && r.Method == http.MethodPost && q.Get("uploadType") == "multipart":
		name, body, err := multiparts(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if _, there := g.objects[name]; there && q.Get("ifGenerationMatch") == "0" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		g.objects[name] = body
		if g.fail > 0 { // made, and the answer is lost
			g.fail--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "{}")
	case g.fail > 0:
		g.fail--
		w.WriteHeader(http.StatusServiceUnavailable)
	case path == list && r.Method == http.MethodGet:
		type item struct{ Name, Size, Md5Hash string }
		var page struct {
			Items         []item `json:"items"`
			NextPageToken string `json:"nextPageToken,omitempty"`
		}
		var names []string
		for name := range g.objects {
			if strings.HasPrefix(name, q.Get("prefix")) && name > q.Get("pageToken") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > 3 {
			names = names[:3]
			page.NextPageToken = names[2]
		}
		for _, name := range names {
			sum := md5.Sum(g.objects[name])
			page.Items = append(page.Items, item{name, strconv.Itoa(len(g.objects[name])), base64.StdEncoding.EncodeToString(sum[:])})
		}
		json.NewEncoder(w).Encode(page)
	default:
		name, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), list+"/"))
		data, there := g.objects[name]
		switch {
		case !there:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodDelete:
			delete(g.objects, name)
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Write(data)
		}
	}
}

// multiparts are the name and the content of an upload.
func multiparts(r *http.Request) (string, []byte, error) {
	kind, with, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/related" {
		return "", nil, fmt.Errorf("%s: %w", kind, err)
	}
	parts := multipart.NewReader(r.Body, with["boundary"])
	var about struct{ Name string }
	part, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(part).Decode(&about)
	}
	if err != nil || about.Name == "" {
		return "", nil, fmt.Errorf("no name: %w", err)
	}
	if part, err = parts.NextPart(); err != nil {
		return "", nil, err
	}
	body, err := io.ReadAll(part)
	return about.Name, body, err
}

// everywhere runs a test with a store of each kind.
func everywhere(t *testing.T, f func(t *testing.T, s *Store)) {
	t.Run("directory", func(t *testing.T) { f(t, newStore(t)) })
	t.Run("memory", func(t *testing.T) { f(t, open(t, "mem://")) })
	t.Run("s3", func(t *testing.T) { f(t, open(t, newS3(t).where("/some/prefix"))) })
	t.Run("google", func(t *testing.T) {
		server := httptest.NewServer(&googleServer{objects: map[string][]byte{}})
		t.Cleanup(server.Close)
		t.Setenv("STORAGE_EMULATOR_HOST", server.URL)
		f(t, open(t, "gs://runs/some/prefix"))
	})
	t.Run("fake-gcs-server", func(t *testing.T) { f(t, open(t, fakeGCS(t)+"/some/prefix")) })
	t.Run("azurite", func(t *testing.T) { f(t, open(t, azurite(t, "/some/prefix"))) })
}

func TestEverywhere(t *testing.T) {
	everywhere(t, func(t *testing.T, s *Store) {
		var want []string
		for n := range 7 {
			r := testRun(n, []string{"main", "Feat/ü%"}[n%2], "lab")
			put(t, s, r)
			want = append(want, r.ID)
		}
		if got := ids(list(t, s, Filter{})); !slices.Equal(got, want) {
			t.Errorf("listed %v", got)
		}
		entries := list(t, s, Filter{Branch: "Feat/ü%", Testbed: "lab"})
		if got := ids(entries); !slices.Equal(got, []string{"run-1", "run-3", "run-5"}) {
			t.Errorf("of a branch %v", got)
		}
		for _, r := range []func() (*bench.Run, error){
			func() (*bench.Run, error) { return s.Load(t.Context(), entries[1]) },
			func() (*bench.Run, error) { return s.Find(t.Context(), "run-3") },
		} {
			got, err := r()
			if d := cmp.Diff(testRun(3, "Feat/ü%", "lab"), got); err != nil || d != "" {
				t.Errorf("%v %s", err, d)
			}
		}
		if _, err := s.Find(t.Context(), "nosuch"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want fs.ErrNotExist", err)
		}
		var outline bench.Run
		if entries[1].Outline(&outline); outline.ID != "run-3" || len(outline.Results) != 1 || outline.Results[0].Samples[0].Value != 98.85 {
			t.Errorf("outline %+v", outline)
		}
		if _, err := s.Put(t.Context(), testRun(3, "Feat/ü%", "lab")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v, want fs.ErrExist", err)
		}
		past, problems, err := s.History(t.Context(), Filter{Branch: "main"})
		if err != nil || len(problems) > 0 || len(past) != 4 || past[3].ID != "run-6" || len(past[3].Results[0].Samples) != 1 {
			t.Errorf("history %v %v %v", past, problems, err)
		}
		old, err := s.Prune(t.Context(), Retention{Keep: 1, DryRun: true})
		if err != nil || len(old) != 5 || len(list(t, s, Filter{})) != 7 {
			t.Errorf("a dry run: %v, %v", ids(old), err)
		}
		if old, err = s.Prune(t.Context(), Retention{Filter: Filter{Branch: "main"}, Keep: 1}); err != nil || len(old) != 3 {
			t.Errorf("pruned %v, %v", ids(old), err)
		}
		if got := ids(list(t, s, Filter{})); !slices.Equal(got, []string{"run-1", "run-3", "run-5", "run-6"}) {
			t.Errorf("left %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := s.List(ctx, Filter{}); err == nil {
			t.Error("an interrupted list is none")
		}
	})
}

// A request that was answered with an error may have been heard.
func TestGoogleAgain(t *testing.T) {
	g := &googleServer{objects: map[string][]byte{}}
	server := httptest.NewServer(g)
	defer server.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	s := open(t, "gs://runs")
	g.fail = 2
	put(t, s, testRun(1, "main", "lab"))
	g.fail = 2
	if got := ids(list(t, s, Filter{})); !slices.Equal(got, []string{"run-1"}) {
		t.Errorf("listed %v", got)
	}
}

// The index says what the runs say, is not believed where they differ, and is as well
// missed.
func TestIndex(t *testing.T) {
	everywhere(t, func(t *testing.T, s *Store) {
		const n = 3*fewRuns + 7
		fill := func(from, to int) {
			for i := from; i < to; i++ {
				r := testRun(i, fmt.Sprintf("b%d", i%3), "lab")
				r.Results[0].Samples = []bench.Sample{{Value: float64(i)}}
				key, data, err := Object(r)
				if err == nil {
					err = s.b.create(t.Context(), key, data)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		indexed := func() (keys []string) {
			if err := s.b.list(t.Context(), indexDir+"/", func(o object) { keys = append(keys, o.key) }); err != nil {
				t.Fatal(err)
			}
			return keys
		}
		read := 0
		s.Reading = func(int, int) { read++ }
		check := func(what string, n, reads int) []Entry {
			t.Helper()
			read = 0
			entries := list(t, s, Filter{})
			if len(entries) != n || read != reads {
				t.Fatalf("%s: %d runs of %d, %d read, want %d", what, len(entries), n, read, reads)
			}
			i := 0
			var all []*Entry
			for k := range entries {
				all = append(all, &entries[k])
			}
			for r := range Outlines(all) {
				if want := fmt.Sprintf("run-%d", i); r.ID != want || r.Results[0].Samples[0].Value != float64(i) || r.Revision.Branch != fmt.Sprintf("b%d", i%3) || r.Testbed != testRun(0, "", "lab").Testbed {
					t.Fatalf("%s: outline %+v, want %s", what, r, want)
				}
				i++
			}
			return entries
		}
		fill(0, n)
		check("first", n, n)
		entries := check("again", n, 0)
		if got := list(t, s, Filter{Branch: "b1"}); len(got) != n/3 {
			t.Errorf("%d runs of a branch", len(got))
		}

		// One is damaged, one is gone: neither counts, whatever the index has.
		victim, gone := entries[5], entries[n-1]
		if err := errors.Join(s.b.remove(t.Context(), victim.key), s.b.create(t.Context(), victim.key, []byte("hello")), s.b.remove(t.Context(), gone.key)); err != nil {
			t.Fatal(err)
		}
		got, problems := listAll(t, s, Filter{})
		if len(got) != n-2 || len(problems) != 1 || problems[0].Path != victim.Path {
			t.Errorf("%d runs, problems %v", len(got), problems)
		}
		_, data, _ := Object(func() *bench.Run {
			r := testRun(5, "b2", "lab")
			r.Results[0].Samples = []bench.Sample{{Value: 5}}
			return r
		}())
		if err := errors.Join(s.b.remove(t.Context(), victim.key), s.b.create(t.Context(), victim.key, data)); err != nil {
			t.Fatal(err)
		}
		fill(n-1, n)

		// An index of others, a torn one, a bomb and one of a later gate cost nothing.
		for name, data := range map[string][]byte{
			"a": []byte("garbage"), "b": mustPack([]byte(`{"schema":1,"runs":1,"keys":["x"]}`)), "c": mustPack(bytes.Repeat([]byte(" "), maxSegment+1)),
			"d": mustPack([]byte(`{"schema":99}`)), "e": mustPack([]byte(`{"schema":1,"runs":1,"of":[7],"values":[1]}`)),
		} {
			if err := s.b.create(t.Context(), indexDir+"/"+name+suffix, data); err != nil {
				t.Fatal(err)
			}
		}
		list(t, s, Filter{})
		if got := indexed(); slices.Contains(got, indexDir+"/a"+suffix) || !slices.Contains(got, indexDir+"/d"+suffix) {
			t.Errorf("of broken segments, these are left: %v", got)
		}
		for _, key := range indexed() {
			if err := s.b.remove(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		check("without an index", n, n)

		// Many small segments become one.
		const step = fewRuns + 1
		for i := range maySegments + 1 {
			fill(n+i*step, n+(i+1)*step)
			check("more", n+(i+1)*step, step)
		}
		if got := indexed(); len(got) > 2 {
			t.Errorf("%d segments", len(got))
		}
		check("joined", n+(maySegments+1)*step, 0)
	})
}

func mustPack(text []byte) []byte {
	data, err := pack(text)
	if err != nil {
		panic(err)
	}
	return data
}

// What lies in a bucket and is no run costs itself.
func TestHostileBucket(t *testing.T) {
	server := newS3(t)
	s := open(t, server.where(""))
	put(t, s, testRun(1, "main", "lab"))
	_, data, err := Object(testRun(2, "main", "lab"))
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string][]byte{
		"runs/../../etc/passwd":                                                data,
		"runs/main/lab/../../x/20260701-140000.json.gz":                        data,
		"runs//lab/20260701-140000.000000000-run-2.json.gz":                    data,
		"runs/main/lab/20260701-140000.000000000-run-2.json.gz/x":              data,
		"runs/ünï/lab/20260701-140000.000000000-run-2.json.gz":                 data,
		"runs/main/other/20260701-140000.000000000-run-2.json.gz":              data,
		"runs/main/lab/20260701-140000.000000000-torn.json.gz":                 data[:len(data)/2],
		"runs/main/lab/20260701-140000.000000000-bomb.json.gz":                 mustPack(bytes.Repeat([]byte(" "), MaxSize+1)),
		"runs/main/lab/20260701-140000.000000000-empty.json.gz":                {},
		"runs/main/lab/notes.txt":                                              []byte("hello"),
		"runs/main/" + strings.Repeat("x", 900) + "/20260701-140000-x.json.gz": data,
		"runs/\x1b[31m/lab/x.json.gz":                                          data,
		"elsewhere":                                                            data,
	}
	for key, data := range foreign {
		if _, err := server.objects.PutObject("runs", key, nil, bytes.NewReader(data), int64(len(data)), nil); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
	}
	entries, problems := listAll(t, s, Filter{})
	if got := ids(entries); !slices.Equal(got, []string{"run-1"}) {
		t.Errorf("entries %v, want the good one alone", got)
	}
	if len(problems) != len(foreign)-1 {
		t.Errorf("%d problems of %d: %v", len(problems), len(foreign)-1, problems)
	}
	to := newStore(t)
	if _, problems, err := Sync(t.Context(), s, to, Filter{}, false, nil); err != nil || len(problems) != len(foreign)-1 {
		t.Errorf("sync: %v, %v", problems, err)
	}
	if got := ids(list(t, to, Filter{})); !slices.Equal(got, []string{"run-1"}) {
		t.Errorf("copied %v", got)
	}
	r := testRun(3, strings.Repeat("Ü", 300), "lab")
	if at, err := s.Put(t.Context(), r); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a name that no cloud takes: %s, %v", at, err)
	}
}

// Sync copies what is missing, and again nothing.
func TestSync(t *testing.T) {
	from, to := newStore(t), open(t, newS3(t).where("/copy"))
	for n := range 9 {
		put(t, from, testRun(n, []string{"main", "x"}[n%2], "lab"))
	}
	put(t, to, testRun(4, "main", "lab"))
	other := testRun(6, "main", "lab")
	other.Tool = "another"
	put(t, to, other)
	sync := func(f Filter, dry bool, wantHad, wantCopied, wantProblems int) {
		t.Helper()
		copied := 0
		had, problems, err := Sync(t.Context(), from, to, f, dry, func(Copied) { copied++ })
		if err != nil || had != wantHad || copied != wantCopied || len(problems) != wantProblems {
			t.Errorf("had %d, copied %d, %v, %v", had, copied, problems, err)
		}
	}
	sync(Filter{}, true, 1, 7, 1)
	sync(Filter{Branch: "x"}, false, 0, 4, 0)
	sync(Filter{}, false, 5, 3, 1)
	sync(Filter{}, false, 8, 0, 1)
	if got := len(list(t, to, Filter{})); got != 9 {
		t.Errorf("%d runs", got)
	}
}

func TestURLs(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush hush")
	for where, want := range map[string]string{
		"ftp://x/y":                      "no kind of store",
		"s3://key:s3cr3t@bucket":         "no credentials in a URL",
		"s3://bucket?secret=s3cr3t":      "no parameter",
		"s3://":                          "no bucket",
		"s3://b?endpoint=http://a:s3@h/": "credentials in it",
		"file://host/x":                  "no directory",
		"s3://%zz":                       "no URL",
	} {
		_, err := Open(t.Context(), where)
		var misnamed *URLError
		if !errors.As(err, &misnamed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", where, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: told the secret: %v", where, err)
		}
	}
	server := newS3(t)
	missing := strings.Replace(server.where(""), "s3://runs", "s3://nosuch", 1)
	if _, err := Open(t.Context(), missing); err == nil || strings.Contains(err.Error(), server.URL) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	if got := redact("x hush y not to be told z", os.Getenv); strings.Contains(got, "not to be told") {
		t.Error(got)
	}
	if got := open(t, server.where("/a/b/")).String(); got != "s3://runs/a/b" {
		t.Errorf("called %s", got)
	}
	dir := t.TempDir()
	if got := open(t, "file://"+dir).String(); got != dir {
		t.Errorf("called %s", got)
	}
}

// writerEnv makes of the test binary a writer: "WHERE N" puts runs of its own and says
// each that is put.
const writerEnv = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(writerEnv); spec != "" {
		if err := write(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func write(spec string) error {
	where, number, _ := strings.Cut(spec, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), where)
	if err != nil {
		return err
	}
	for i := range 5 {
		r := testRun(n*100+i, fmt.Sprintf("b%d", n%7), "lab")
		if _, err := s.Put(context.Background(), r); err != nil {
			return err
		}
		fmt.Println(r.ID)
	}
	return nil
}

// Of two hundred writers many are killed. What one of them said that it put is there,
// whole, and nothing is there by halves.
func TestTwoHundredWriters(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		s := newStore(t)
		twoHundred(t, s, s.String())
	})
	t.Run("s3", func(t *testing.T) {
		server := newS3(t)
		twoHundred(t, open(t, server.where("")), server.where(""))
	})
	t.Run("fake-gcs-server", func(t *testing.T) {
		where := fakeGCS(t)
		twoHundred(t, open(t, where), where)
	})
	t.Run("azurite", func(t *testing.T) {
		where := azurite(t, "")
		twoHundred(t, open(t, where), where)
	})
}

func twoHundred(t *testing.T, s *Store, where string) {
	if testing.Short() {
		t.Skip("200 processes")
	}
	const writers = 200
	said := make([][]string, writers)
	var wg sync.WaitGroup
	killed := atomic.Int64{}
	gate := make(chan struct{}, 40)
	for w := range writers {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", writerEnv, where, w))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said[w] = append(said[w], lines.Text())
				// A third is killed between the first of its runs and the last.
				if w%3 == 0 && len(said[w]) == 1+w%4 {
					time.Sleep(time.Duration(w%7) * 300 * time.Microsecond)
					if cmd.Process.Kill() == nil {
						killed.Add(1)
					}
				}
			}
			if err := cmd.Wait(); err != nil && w%3 != 0 {
				t.Errorf("writer %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	there := map[string]bool{}
	for _, e := range list(t, s, Filter{}) { // no problems
		there[e.ID] = true
		if _, err := s.Load(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	for w, ids := range said {
		for _, id := range ids {
			if !there[id] {
				t.Errorf("writer %d put %s, which is not there", w, id)
			}
		}
		if w%3 != 0 && len(ids) != 5 {
			t.Errorf("writer %d put %d runs", w, len(ids))
		}
	}
	if killed.Load() == 0 {
		t.Error("nobody was killed")
	}
}
