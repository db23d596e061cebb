package github

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// An Artifact is what the API says of one artifact of a workflow run.
type Artifact struct {
	ID      int64
	Name    Name
	Run     int64
	Size    int64 // of the zip, in bytes
	Expired bool
	Created time.Time
}

const (
	// maxArtifactPages bounds the listing of one run: its own jobs could upload
	// any number.
	maxArtifactPages = 5
	// maxZip is the largest artifact that is fetched, in bytes: the bundle's limit
	// and the zip around it.
	maxZip = 5<<20 + 4096
)

// Artifacts lists the artifacts of a run that have a name of ours, newest attempt
// first. Of one [Name.Key] only the newest attempt is listed.
func (c *Client) Artifacts(ctx context.Context, run int64) ([]Artifact, error) {
	return c.artifacts(ctx, run, "")
}

// artifacts lists those of one exact name, or all. go-github v60 has no name
// filter, and servers that do not know it ignore it.
func (c *Client) artifacts(ctx context.Context, run int64, name string) ([]Artifact, error) {
	newest := map[string]Artifact{}
	for page := 1; page <= maxArtifactPages; {
		var list struct {
			Artifacts []struct {
				ID        int64     `json:"id"`
				Name      string    `json:"name"`
				Size      int64     `json:"size_in_bytes"`
				Expired   bool      `json:"expired"`
				CreatedAt time.Time `json:"created_at"`
			} `json:"artifacts"`
		}
		q := url.Values{"per_page": {strconv.Itoa(perPage)}, "limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
		if name != "" {
			q.Set("name", name)
		}
		resp, err := c.get(ctx, fmt.Sprintf("actions/runs/%d/artifacts", run), q, &list)
		if err != nil {
			return nil, failed(fmt.Sprintf("list the artifacts of run %d", run), err)
		}
		for _, a := range list.Artifacts {
			n, err := ParseName(a.Name)
			if err != nil || name != "" && a.Name != name {
				continue
			}
			if old, ok := newest[n.Key()]; !ok || old.Name.Attempt < n.Attempt {
				newest[n.Key()] = Artifact{ID: a.ID, Name: n, Run: run, Size: a.Size, Expired: a.Expired, Created: a.CreatedAt}
			}
		}
		if resp.NextPage == 0 || len(list.Artifacts) == 0 {
			break
		}
		page = resp.NextPage
	}
	all := make([]Artifact, 0, len(newest))
	for _, a := range newest {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Artifact) int {
		if a.Name.Attempt != b.Name.Attempt {
			return b.Name.Attempt - a.Name.Attempt
		}
		if a.Name.Key() < b.Name.Key() {
			return -1
		}
		return 1
	})
	return all, nil
}

// Download fetches the zip of an artifact, whose content is nobody's word yet: see
// store.UnzipBundle. It is refused above 5 MB. An expired one is [ErrGone].
//
// The API answers with the place of the zip, a signed URL of another host. The
// token is not sent there.
func (c *Client) Download(ctx context.Context, a Artifact) ([]byte, error) {
	what := fmt.Sprintf("fetch artifact %d", a.ID)
	switch {
	case a.Expired:
		return nil, fmt.Errorf("%s: %w", what, ErrGone)
	case a.Size > maxZip:
		return nil, fmt.Errorf("%s: %d MB, at most %d", what, a.Size>>20, maxZip>>20)
	}
	req, err := c.api.NewRequest(http.MethodGet, c.path(fmt.Sprintf("actions/artifacts/%d/zip", a.ID), nil), nil)
	if err != nil {
		return nil, err
	}
	// Not through a client that follows.
	resp, err := c.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, clean(err))
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusOK: // some forges serve it themselves
		return readZip(what, resp.Body)
	case code != http.StatusFound && code != http.StatusTemporaryRedirect && code != http.StatusSeeOther:
		return nil, answered(what, code)
	}
	to, err := req.URL.Parse(resp.Header.Get("Location"))
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != c.transport.base.Scheme {
		return nil, fmt.Errorf("%s: the API named no place to fetch it from", what)
	}
	return c.fetch(ctx, what, to.String())
}

func (c *Client) fetch(ctx context.Context, what, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, clean(err))
	}
	resp, err := c.plain.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, clean(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, answered(what, resp.StatusCode)
	}
	return readZip(what, resp.Body)
}

func readZip(what string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxZip+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, clean(err))
	}
	if len(data) > maxZip {
		return nil, fmt.Errorf("%s: more than %d MB", what, maxZip>>20)
	}
	return data, nil
}

func answered(what string, code int) error {
	switch code {
	case http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	case http.StatusGone:
		return fmt.Errorf("%s: %w", what, ErrGone)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: %w", what, ErrForbidden)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w", what, ErrLimited)
	}
	return fmt.Errorf("%s: the server answered %d", what, code)
}

// clean takes the URL out of an error: a signed one is a secret.
func clean(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
