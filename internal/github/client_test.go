package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
)

func TestNewRefuses(t *testing.T) {
	for _, repo := range []string{"", "o", "o/r/x", "../r", "o/..", "o/r?x", "o/r#x", "o /r"} {
		if _, err := New(repo, Options{}); err == nil {
			t.Errorf("New(%q)", repo)
		}
	}
	for _, api := range []string{"ftp://x", "x", "https://user:pw@x", "://"} {
		if _, err := New("o/r", Options{API: api}); err == nil {
			t.Errorf("API %q", api)
		}
	}
}

// GitHub Enterprise and Gitea have their API below a path.
func TestBaseURL(t *testing.T) {
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		fmt.Fprint(w, `{"id":7}`)
	}))
	defer s.Close()
	for _, suffix := range []string{"/api/v3", "/api/v3/", "/api/v1"} {
		c, err := New("o/r", Options{API: s.URL + suffix})
		if err != nil {
			t.Fatal(err)
		}
		if id, err := c.RepoID(t.Context()); id != 7 || err != nil || asked != strings.TrimSuffix(suffix, "/")+"/repos/o/r" {
			t.Errorf("%s: %d, %v, asked %s", suffix, id, err, asked)
		}
	}
}

// once fails the first n requests.
func once(n int, f githubtest.Failure) func(*http.Request) *githubtest.Failure {
	return func(*http.Request) *githubtest.Failure {
		if n--; n < 0 {
			return nil
		}
		return &f
	}
}

func TestWaits(t *testing.T) {
	reset := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	secondary := `{"message":"You have exceeded a secondary rate limit","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	for name, tt := range map[string]struct {
		fail       githubtest.Failure
		times      int
		wantErr    error
		least, max time.Duration // of all pauses
	}{
		"retry after":          {githubtest.Failure{Code: 403, Header: map[string]string{"Retry-After": "7"}, Body: secondary}, 1, nil, 7 * time.Second, 7 * time.Second},
		"retry after, 429":     {githubtest.Failure{Code: 429, Header: map[string]string{"Retry-After": "3"}}, 2, nil, 6 * time.Second, 6 * time.Second},
		"secondary, no header": {githubtest.Failure{Code: 403, Body: secondary}, 1, nil, time.Minute, time.Minute},
		"primary":              {githubtest.Failure{Code: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset(30 * time.Second)}}, 1, nil, 28 * time.Second, 32 * time.Second},
		"primary, an hour":     {githubtest.Failure{Code: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset(time.Hour)}}, 1, ErrLimited, 0, 0},
		"retry after a day":    {githubtest.Failure{Code: 429, Header: map[string]string{"Retry-After": "86400"}}, 1, ErrLimited, 0, 0},
		"read-only":            {githubtest.Failure{Code: 403, Body: `{"message":"Resource not accessible by integration"}`}, 1, ErrForbidden, 0, 0},
		"bad token":            {githubtest.Failure{Code: 401}, 1, ErrForbidden, 0, 0},
		"missing":              {githubtest.Failure{Code: 404}, 1, ErrNotFound, 0, 0},
		"gone":                 {githubtest.Failure{Code: 410}, 1, ErrGone, 0, 0},
		"invalid":              {githubtest.Failure{Code: 422}, 1, ErrInvalid, 0, 0},
		"bad gateway":          {githubtest.Failure{Code: 502, Body: "<html>"}, 2, nil, 3 * time.Second, 4 * time.Second},
		"down":                 {githubtest.Failure{Code: 503}, 99, errors.New("the API answered 503"), 15 * time.Second, 17 * time.Second},
		"not implemented":      {githubtest.Failure{Code: 501}, 99, errors.New("the API answered 501"), 0, 0},
	} {
		s, c, pauses := forge(t)
		s.Fail = once(tt.times, tt.fail)
		_, err := c.RepoID(t.Context())
		switch {
		case tt.wantErr == nil && err != nil, tt.wantErr != nil && err == nil:
			t.Errorf("%s: %v", name, err)
		case tt.wantErr != nil && !errors.Is(err, tt.wantErr) && !strings.Contains(err.Error(), tt.wantErr.Error()):
			t.Errorf("%s: %v, want %v", name, err, tt.wantErr)
		}
		sum := time.Duration(0)
		for _, p := range *pauses {
			sum += p
		}
		if sum < tt.least || sum > tt.max {
			t.Errorf("%s: waited %v, want %v to %v", name, sum, tt.least, tt.max)
		}
		if err != nil && strings.Contains(err.Error(), s.API.URL) {
			t.Errorf("%s: the error holds a URL: %v", name, err)
		}
	}
}

// A 200 that says that it was the last of the hour must not stop what comes next.
func TestLastOfTheHour(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		fmt.Fprint(w, `{"id":1}`)
	}))
	defer s.Close()
	c, err := New("o/r", Options{API: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.RepoID(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCancelled(t *testing.T) {
	s := githubtest.New()
	defer s.Close()
	s.Fail = func(*http.Request) *githubtest.Failure {
		return &githubtest.Failure{Code: 429, Header: map[string]string{"Retry-After": "100"}}
	}
	c, err := New("o/r", Options{API: s.API.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := c.RepoID(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// A redirect of the API to another host must not carry the token along.
func TestRedirectCarriesNoToken(t *testing.T) {
	s, c, _ := forge(t)
	s.Fail = func(r *http.Request) *githubtest.Failure {
		return &githubtest.Failure{Code: 302, Header: map[string]string{"Location": s.Blobs.URL + "/1?sig=secret"}}
	}
	s.Artifacts = []githubtest.Artifact{{ID: 1, Zip: []byte(`{"id":1}`)}}
	if id, err := c.RepoID(t.Context()); id != 1 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
}
