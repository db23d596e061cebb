package github

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/store"
)

const workflow = ".github/workflows/bench.yml"

// sha makes a commit of a number.
func sha(n int) string { return fmt.Sprintf("%040x", n) }

// forge starts a server and a client of it whose pauses take no time. It fails
// the test if the token was sent anywhere else.
func forge(t testing.TB) (*githubtest.Server, *Client, *[]time.Duration) {
	t.Helper()
	s := githubtest.New()
	t.Cleanup(func() {
		s.Close()
		if s.Leaked {
			t.Error("the token was sent to the host of the downloads")
		}
	})
	var pauses []time.Duration
	c, err := New("o/r", Options{Token: githubtest.Token, API: s.API.URL, Server: "https://github.example", Sleep: func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s, c, &pauses
}

func zipOf(t testing.TB, b *store.Bundle) []byte {
	t.Helper()
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	w, err := z.Create(store.BundleFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	z.Close()
	return buf.Bytes()
}

// aRun is a run of a testbed with n samples.
func aRun(id string, testbed string, value float64, n int) *bench.Run {
	r := &bench.Run{
		Schema: 1, ID: id, Time: time.Unix(1_700_000_000, 0).UTC(), Session: "s-" + id,
		Revision: bench.Revision{Name: "forged", Branch: "forged"}, Testbed: bench.Testbed{Name: testbed, Kernel: "6.11", Arch: "amd64"},
	}
	res := bench.Result{Benchmark: "fun_xdp/worst", Program: "fun_xdp", Measure: bench.Latency, Kind: bench.Micro}
	for i := range n {
		res.Samples = append(res.Samples, bench.Sample{Round: i, Value: value + float64(i%7)/10})
	}
	r.Results = []bench.Result{res}
	return r
}

// trustedHistory puts n trusted runs of main on the server, newest first, the
// newest with the commit n, each with an artifact of a testbed.
func trustedHistory(t testing.TB, s *githubtest.Server, n int, testbeds ...string) {
	t.Helper()
	for i := n; i >= 1; i-- {
		s.Runs = append(s.Runs, githubtest.Run{
			ID: int64(i), Event: "push", Path: workflow, Branch: "main", SHA: sha(i), HeadRepo: 1, Repo: 1,
			Created: time.Unix(int64(1_700_000_000+i*1000), 0), Status: "completed",
		})
		s.Commits[sha(n)] = append(s.Commits[sha(n)], sha(i))
		for j, testbed := range testbeds {
			r := aRun(fmt.Sprintf("r-%d-%d", i, j), testbed, 100, 40)
			r.Time = time.Unix(int64(1_700_000_000+i*1000), 0).UTC()
			s.Artifacts = append(s.Artifacts, githubtest.Artifact{
				ID: int64(i*100 + j), Run: int64(i), Name: Name{Kind: KindRun, ID: "default", Branch: "main", Testbed: testbed, Attempt: 1}.String(),
				Zip: zipOf(t, &store.Bundle{Head: r}),
			})
		}
	}
}

func query(n int) HistoryQuery {
	return HistoryQuery{Repo: 1, Workflow: workflow, Branch: "main", Base: sha(n), ID: "default"}
}
