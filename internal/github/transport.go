package github

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxTries limits how often one request is sent.
const maxTries = 5

// maxJSON limits what is read of one answer of the API, in bytes.
const maxJSON = 32 << 20

// A transport authorizes, counts and repeats requests.
//
// The token goes to the API's own host only: an [http.Client] whose transport
// authorizes everything would hand it to whatever a redirect points to.
type transport struct {
	next     http.RoundTripper
	base     *url.URL
	token    string
	maxWait  time.Duration
	sleep    func(context.Context, time.Duration) error
	requests atomic.Int64
}

// ours tells that a URL is the API's.
func (t *transport) ours(u *url.URL) bool {
	return u.Scheme == t.base.Scheme && strings.EqualFold(u.Host, t.base.Host)
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if t.ours(req.URL) {
		if t.token != "" {
			req.Header.Set("Authorization", "Bearer "+t.token)
		}
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	resp, err := t.repeat(req, &t.requests)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		// Otherwise go-github refuses by itself what comes after the last request
		// of an hour, without a chance to wait.
		resp.Header.Del("X-Ratelimit-Reset")
	}
	resp.Body = limited{io.LimitReader(resp.Body, maxJSON), resp.Body}
	return resp, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// retrying sends requests as they are, only more often.
type retrying struct{ *transport }

func (r *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	var uncounted atomic.Int64
	return r.repeat(req, &uncounted)
}

// repeat sends a request until it is answered for good, as GitHub's documentation
// asks: after a rate limit at the time that the answer names (Retry-After, else
// x-ratelimit-reset, else a minute), after a server's failure with a growing
// pause. A request that the server may have carried out is not sent again unless
// it does the same twice.
func (t *transport) repeat(req *http.Request, count *atomic.Int64) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	waited := time.Duration(0)
	for try := 1; ; try++ {
		r := req.Clone(req.Context())
		if body != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		count.Add(1)
		resp, err := t.next.RoundTrip(r)
		pause, again := pauseAfter(req, resp, err, try)
		if !again || try == maxTries || waited+pause > t.maxWait || req.Context().Err() != nil {
			return resp, err
		}
		if resp != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // keeps the connection
			resp.Body.Close()
		}
		waited += pause
		if err := t.sleep(req.Context(), pause); err != nil {
			return nil, err
		}
	}
}

// pauseAfter tells whether a request is worth sending again, and when.
func pauseAfter(req *http.Request, resp *http.Response, err error, try int) (time.Duration, bool) {
	// 1, 2, 4, 8 s, and a little more, so that many jobs do not come in step.
	backoff := time.Second<<(try-1) + rand.N(time.Second/4)
	if err != nil {
		return backoff, repeatable(req)
	}
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden:
		return limitPause(resp)
	case code >= 500 && code != http.StatusNotImplemented:
		return backoff, repeatable(req)
	}
	return 0, false
}

// limitPause is how long a rate limit lasts; false where the answer is none.
func limitPause(resp *http.Response) (time.Duration, bool) {
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s >= 0 {
		return time.Duration(min(s, 1<<20)) * time.Second, true
	}
	if resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		reset, err := strconv.ParseInt(resp.Header.Get("X-Ratelimit-Reset"), 10, 64)
		if err == nil {
			return max(time.Second, time.Until(time.Unix(reset, 0))+time.Second), true
		}
		return time.Minute, true
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return time.Minute, true
	}
	// Only its text tells a secondary limit without headers from a token that may
	// not; it is put back for who reads it next.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return time.Minute, bytes.Contains(bytes.ToLower(text), []byte("secondary rate limit"))
}

type repeatKey struct{}

// mayRepeat marks what does the same twice though it is a POST.
func mayRepeat(ctx context.Context) context.Context {
	return context.WithValue(ctx, repeatKey{}, true)
}

func repeatable(req *http.Request) bool {
	return req.Method != http.MethodPost || req.Context().Value(repeatKey{}) != nil
}
