// Package push sends a run to servers that keep results: to Bencher's API, and to
// Prometheus's push gateway.
//
// What is sent is what package adapter writes; this package knows the two protocols. A
// token leaves for the address that was asked for and for no other.
package push

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/adapter"
)

// maxAnswer limits what is read of an answer, in bytes.
const maxAnswer = 8 << 20

// maxBencherName is the length of a name at Bencher, in characters.
const maxBencherName = 64

// A Bencher is a project of a server of Bencher.
type Bencher struct {
	URL     string // of the API, such as https://api.bencher.dev
	Project string // UUID or slug
	Token   string
}

// An Answer is what Bencher says of a report.
type Answer struct {
	UUID   string            `json:"uuid"`
	Alerts []json.RawMessage `json:"alerts"`
}

// Push makes a report of a run: POST /v0/projects/{project}/reports, as
// https://bencher.dev/docs/api/projects/reports/ describes it, with the results in Bencher
// Metric Format. Branch and testbed are made there where they do not exist.
func (b Bencher) Push(ctx context.Context, run *bench.Run) (Answer, error) {
	at, err := address(b.URL, "v0/projects/"+url.PathEscape(b.Project)+"/reports")
	if err != nil {
		return Answer{}, err
	}
	var results bytes.Buffer
	if err := adapter.WriteBMF(&results, run); err != nil {
		return Answer{}, err
	}
	report := map[string]any{
		"branch":     name(run.Revision.Branch, run.Revision.Name),
		"testbed":    name(run.Testbed.Slug()),
		"start_time": run.Time.UTC().Format(time.RFC3339),
		"end_time":   run.Time.Add(took(run)).UTC().Format(time.RFC3339),
		"results":    []string{results.String()},
		"settings":   map[string]string{"adapter": "json"},
	}
	if c := run.Revision.Commit; len(c) == 40 && !run.Revision.Dirty {
		report["hash"] = c
	}
	body, err := json.Marshal(report)
	if err != nil {
		return Answer{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if b.Token != "" {
		header.Set("Authorization", "Bearer "+b.Token)
	}
	data, err := send(ctx, http.MethodPost, at, header, body)
	if err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := json.Unmarshal(data, &a); err != nil {
		return Answer{}, fmt.Errorf("%s answered with no report: %w", at.Host, err)
	}
	return a, nil
}

// name is the first name that is not empty, as long as Bencher allows.
func name(names ...string) string {
	for _, n := range names {
		if n = strings.TrimSpace(printable(n)); n != "" {
			if r := []rune(n); len(r) > maxBencherName {
				n = string(r[:maxBencherName-1]) + "…"
			}
			return n
		}
	}
	return "unknown"
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// took is the time that the benchmarks of a run were measured for, as far as it says.
func took(run *bench.Run) time.Duration {
	of := map[string]float64{}
	for i := range run.Results {
		of[run.Results[i].Benchmark] = max(of[run.Results[i].Benchmark], run.Results[i].Seconds)
	}
	sum := 0.0
	for _, s := range of {
		sum += s
	}
	return time.Duration(min(sum, 1e6) * float64(time.Second))
}

// A Gateway is a push gateway of Prometheus.
type Gateway struct {
	URL            string
	Job            string
	User, Password string // of basic authentication, where there is one
}

// Push replaces what the gateway has of the run's job, branch and testbed.
func (g Gateway) Push(ctx context.Context, run *bench.Run) error {
	path := "metrics/job" + label(g.Job) + "/branch" + label(run.Revision.Branch) + "/testbed" + label(run.Testbed.Slug())
	at, err := address(g.URL, path)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := adapter.WriteOpenMetrics(&text, run); err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"text/plain; version=0.0.4; charset=utf-8"}}
	if g.User != "" {
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(g.User+":"+g.Password)))
	}
	_, err = send(ctx, http.MethodPut, at, header, plainText(text.Bytes()))
	return err
}

// label is a value in a path of the gateway, which takes any in base64.
func label(value string) string {
	if value == "" {
		return "@base64/=" // the gateway's own word for empty
	}
	return "@base64/" + base64.RawURLEncoding.EncodeToString([]byte(value))
}

// plainText is OpenMetrics in the text format before it, which is what the gateway
// reads: that has neither infos nor units nor an end.
func plainText(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		s := string(line)
		if strings.HasPrefix(s, "# UNIT ") || strings.HasPrefix(s, "# EOF") {
			continue
		}
		if family, ok := strings.CutSuffix(s, " info\n"); ok && strings.HasPrefix(s, "# TYPE ") {
			s = family + "_info gauge\n"
		}
		out.WriteString(s)
	}
	return out.Bytes()
}

// address is a path below a server's.
func address(server, path string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("that is no http or https URL")
	}
	if u.User != nil {
		return nil, errors.New("no credentials in a URL, which others read")
	}
	return url.Parse(u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/") + "/" + path)
}

func send(ctx context.Context, method string, at *url.URL, header http.Header, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	// Whoever redirects would be sent the token.
	client := http.Client{Timeout: 2 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s answered %s: %s", at.Host, answer.Status, printable(strings.Join(strings.Fields(string(data[:min(len(data), 400)])), " ")))
	}
	return data, nil
}
