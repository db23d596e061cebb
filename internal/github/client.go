package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// DefaultAPI is the API of github.com.
const DefaultAPI = "https://api.github.com/"

// What an API answered, for errors.Is. All are wrapped with what was asked.
var (
	// ErrForbidden: the token may not (401, 403), such as the read-only one that
	// a fork's pull request gets.
	ErrForbidden = errors.New("the token may not do this")
	// ErrNotFound: it does not exist, or the token may not know that it does (404).
	ErrNotFound = errors.New("not found")
	// ErrGone: it existed, such as an expired artifact (410).
	ErrGone = errors.New("expired")
	// ErrInvalid: the request was understood and refused (422), such as a commit
	// that is unknown.
	ErrInvalid = errors.New("refused as invalid")
	// ErrLimited: too many requests, and waiting would take longer than
	// [Options.MaxWait].
	ErrLimited = errors.New("rate limit")
)

// Options of [New].
type Options struct {
	// Token authorizes; empty: reads of public repositories only.
	Token string
	// API is the base URL, as GITHUB_API_URL has it: "https://host/api/v3" for
	// GitHub Enterprise, "https://host/api/v1" for Gitea and Forgejo. Empty:
	// [DefaultAPI].
	API string
	// Server is where pages are, as GITHUB_SERVER_URL has it. Empty: it follows
	// from API.
	Server string
	// Author is the login under which the token writes, such as "my-app[bot]".
	// Empty: the API is asked, and if it does not say, it is that of a job.
	Author string
	// MaxWait limits the time that one request may wait for rate limits and
	// failing servers; 0 is two minutes.
	MaxWait time.Duration
	// Transport is for tests; nil is http.DefaultTransport.
	Transport http.RoundTripper
	// Sleep is for tests; nil waits for real.
	Sleep func(context.Context, time.Duration) error
}

// A Client speaks about one repository. It may be used by several goroutines.
type Client struct {
	owner, name string
	api         *gh.Client
	transport   *transport
	plain       *http.Client // never authorized
	server      string
	author      string
}

var repoPart = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// New makes a client for a repository "owner/name".
func New(repo string, o Options) (*Client, error) {
	owner, name, ok := strings.Cut(repo, "/")
	if !ok || !repoPart.MatchString(owner) || !repoPart.MatchString(name) || strings.Trim(owner, ".") == "" || strings.Trim(name, ".") == "" {
		return nil, fmt.Errorf("%.80q is not a repository: expected OWNER/NAME", repo)
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
	base, err := url.Parse(strings.TrimSuffix(o.API, "/") + "/")
	if err != nil || base.Host == "" || base.User != nil || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("%.80q is not the URL of an API, such as %s", o.API, DefaultAPI)
	}
	if o.Server == "" {
		o.Server = serverOf(base)
	}
	if o.MaxWait == 0 {
		o.MaxWait = 2 * time.Minute
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	t := &transport{next: o.Transport, base: base, token: o.Token, maxWait: o.MaxWait, sleep: o.Sleep}
	c := &Client{owner: owner, name: name, transport: t, server: strings.TrimSuffix(o.Server, "/"), author: o.Author}
	c.api = gh.NewClient(&http.Client{Transport: t, Timeout: 5 * time.Minute})
	c.api.BaseURL = base
	c.api.UserAgent = "ebpf-bench-gate"
	c.plain = &http.Client{Transport: &retrying{transport: t}, Timeout: 5 * time.Minute}
	return c, nil
}

// serverOf is where the pages of an API's forge are.
func serverOf(api *url.URL) string {
	u := url.URL{Scheme: api.Scheme, Host: strings.TrimPrefix(api.Host, "api.")}
	return u.String()
}

// Repo is "owner/name".
func (c *Client) Repo() string { return c.owner + "/" + c.name }

// Requests is how many requests went to the API so far, retries included.
// Downloads from where the API pointed to are none.
func (c *Client) Requests() int { return int(c.transport.requests.Load()) }

// get asks for what go-github has no function or no option for.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) (*gh.Response, error) {
	req, err := c.api.NewRequest(http.MethodGet, c.path(path, query), nil)
	if err != nil {
		return nil, err
	}
	return c.api.Do(ctx, req, into)
}

// path is below the repository; it must be escaped already.
func (c *Client) path(path string, query url.Values) string {
	p := "repos/" + c.owner + "/" + c.name
	if path != "" {
		p += "/" + path
	}
	if len(query) > 0 {
		p += "?" + query.Encode()
	}
	return p
}

// failed says what was asked and in one of our words what went wrong.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	var limited *gh.RateLimitError
	var abuse *gh.AbuseRateLimitError
	if errors.As(err, &limited) || errors.As(err, &abuse) {
		return fmt.Errorf("%s: %w", what, ErrLimited)
	}
	var e *gh.ErrorResponse
	if !errors.As(err, &e) || e.Response == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	kind := error(nil)
	switch e.Response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		kind = ErrForbidden
	case http.StatusNotFound:
		kind = ErrNotFound
	case http.StatusGone:
		kind = ErrGone
	case http.StatusUnprocessableEntity:
		kind = ErrInvalid
	case http.StatusTooManyRequests:
		kind = ErrLimited
	}
	// Not the error's own text: it holds the whole URL, and whatever the server
	// sent.
	if kind == nil {
		return fmt.Errorf("%s: the API answered %d", what, e.Response.StatusCode)
	}
	return fmt.Errorf("%s: %w (%d)", what, kind, e.Response.StatusCode)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
