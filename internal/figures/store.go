//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/store"
)

const (
	storedRuns = 100_000
	// storedBranches and storedTestbeds share the runs evenly.
	storedBranches, storedTestbeds = 5, 4
)

// stored is the n-th of the runs: two benchmarks, each with a noisy and an exact
// measure, and a step of 5% in the middle of one series in five.
func stored(n int, rnd *rand.Rand) *bench.Run {
	branch, bed := n%storedBranches, n/storedBranches%storedTestbeds
	at := n / (storedBranches * storedTestbeds)
	r := &bench.Run{
		Schema: bench.SchemaVersion, ID: fmt.Sprintf("r%06d", n), Time: time.Date(2020, 1, 1, 0, 0, n*600, n, time.UTC),
		Revision: bench.Revision{Name: "HEAD", Branch: fmt.Sprintf("release-%d", branch), Commit: fmt.Sprintf("%040x", n*7919)},
		Testbed:  bench.Testbed{Name: fmt.Sprintf("lab-%d", bed), Kernel: "6.11.0", Arch: "amd64", CPU: "AMD EPYC 7763", CPUs: 4, JIT: true},
		Tool:     "figures",
	}
	for _, b := range []string{"lb/new", "lb/known"} {
		level := 100.0
		if b == "lb/new" && branch == 0 && at > storedRuns/(storedBranches*storedTestbeds)/2 {
			level = 105
		}
		lat := bench.Result{Benchmark: b, Program: "lb", Measure: bench.Latency, Kind: bench.Micro}
		for i := range 10 {
			lat.Samples = append(lat.Samples, bench.Sample{Round: i, Value: level + rnd.NormFloat64(), Floor: 20, Offset: -1})
		}
		r.Results = append(r.Results, lat, bench.Result{
			Benchmark: b, Program: "lb", Measure: bench.Insns, Kind: bench.Micro, Samples: []bench.Sample{{Value: 581, Offset: -1}},
		})
	}
	return r
}

// history times the real command, with and without an index, over a hundred thousand
// runs in a directory and in a bucket that answers after 20 ms.
func history(l *lab) ([]row, error) {
	const latency = 20 * time.Millisecond
	gate, err := gateBinary()
	if err != nil {
		return nil, err
	}
	dir, bucket := filepath.Join(l.temp, "store"), s3mem.New()
	if err := bucket.CreateBucket("runs"); err != nil {
		return nil, err
	}
	rnd := rand.New(rand.NewPCG(l.newSeed(), 1))
	for n := range storedRuns {
		if err := l.ctx.Err(); err != nil {
			return nil, err
		}
		key, data, err := store.Object(stored(n, rnd))
		if err != nil {
			return nil, err
		}
		// As store.Put does, without waiting for the disk each time.
		file := filepath.Join(dir, filepath.FromSlash(key))
		err = os.WriteFile(file, data, 0o644)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644))
		}
		if err != nil {
			return nil, err
		}
		if _, err := bucket.PutObject("runs", key, nil, bytes.NewReader(data), int64(len(data)), nil); err != nil {
			return nil, err
		}
	}
	handler := gofakes3.New(bucket).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	var rows []row
	for _, place := range []struct {
		what, where string
		target      time.Duration
	}{
		{"a directory", dir, 2 * time.Second},
		{"a bucket that answers after 20 ms", "s3://runs?region=x&endpoint=" + url.QueryEscape(server.URL), 10 * time.Second},
	} {
		first, _, err := l.timed(gate, place.where)
		if err != nil {
			return nil, err
		}
		warm, memory := time.Duration(0), int64(0)
		for range 3 {
			took, used, err := l.timed(gate, place.where)
			if err != nil {
				return nil, err
			}
			if warm == 0 || took < warm {
				warm, memory = took, used
			}
		}
		rows = append(rows, row{
			what: fmt.Sprintf("gate history of %d runs in %s", storedRuns, place.what), measured: fmt.Sprintf("%.2f s, %d MB", warm.Seconds(), memory>>10),
			beside: fmt.Sprintf("%.0f s without an index", first.Seconds()), target: fmt.Sprintf("< %.0f s", place.target.Seconds()), met: meets(warm < place.target),
		})
	}
	return rows, nil
}

// timed is the time and the greatest memory, in KB, of one gate history.
func (l *lab) timed(gate, where string) (time.Duration, int64, error) {
	cmd := exec.CommandContext(l.ctx, gate, "history", "--store", where)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=figures", "AWS_SECRET_ACCESS_KEY=figures")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("gate history: %w: %s", err, errs.Bytes())
	}
	// What it did not read would cost nothing.
	each := fmt.Sprintf(", %d runs\n", storedRuns/(storedBranches*storedTestbeds))
	if n := bytes.Count(out, []byte(each)); n != storedBranches*storedTestbeds || errs.Len() > 0 {
		return 0, 0, fmt.Errorf("gate history tells %d histories: %s", n, errs.Bytes())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0, fmt.Errorf("gate history: %v", cmd.ProcessState)
	}
	return took, usage.Maxrss, nil
}
