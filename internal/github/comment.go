package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	gh "github.com/google/go-github/v60/github"
)

// MaxDescription is the length of a commit status's description in characters.
const MaxDescription = 140

// maxCommentPages bounds the search for our comment: ours is among the first, since
// it is written with the first report.
const maxCommentPages = 10

// A Comment is where a comment stands.
type Comment struct {
	ID   int64
	URL  string // of the page, made of numbers and the server's own address
	Body string
}

// FindComment finds our comment on a pull request: by the marker as its whole
// first line, and by its author, who must be who the token is. Anybody can write
// our marker; such a comment is not ours. Nil: there is none.
func (c *Client) FindComment(ctx context.Context, pull int, marker string) (*Comment, error) {
	me, err := c.login(ctx)
	if err != nil {
		return nil, err
	}
	for page := 1; page <= maxCommentPages; {
		var list []*gh.IssueComment
		q := url.Values{"per_page": {strconv.Itoa(perPage)}, "limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
		resp, err := c.get(ctx, fmt.Sprintf("issues/%d/comments", pull), q, &list)
		if err != nil {
			return nil, failed(fmt.Sprintf("list the comments of #%d", pull), err)
		}
		for _, m := range list {
			first, _, _ := strings.Cut(m.GetBody(), "\n")
			if strings.TrimSuffix(first, "\r") == marker && me.is(m.GetUser()) {
				return c.comment(pull, m), nil
			}
		}
		if resp.NextPage == 0 || len(list) == 0 {
			return nil, nil
		}
		page = resp.NextPage
	}
	return nil, nil
}

// author is who the token is.
type author struct {
	login string // empty: that of a job
	gitea bool
}

func (a author) is(u *gh.User) bool {
	if a.login != "" {
		// Only an App's login ends so; a person cannot have it.
		app := strings.HasSuffix(strings.ToLower(a.login), "[bot]")
		return strings.EqualFold(u.GetLogin(), a.login) && (!app || u.GetType() == "Bot")
	}
	switch u.GetLogin() {
	case "github-actions[bot]": // nobody else's name may hold brackets
		return u.GetType() == "Bot"
	case "gitea-actions", "forgejo-actions": // reserved there, and below 0
		return a.gitea && u.GetID() < 0
	}
	return false
}

// login asks whose token it is. A person's may ask that of REST. The workflow's own
// token and those of other GitHub Apps may not, but are told by GraphQL. Where neither
// says, it is taken for the workflow's own: github-actions[bot].
func (c *Client) login(ctx context.Context) (author, error) {
	if c.author != "" {
		return author{login: c.author}, nil
	}
	req, err := c.api.NewRequest(http.MethodGet, "user", nil)
	if err != nil {
		return author{}, err
	}
	var me gh.User
	_, err = c.api.Do(ctx, req, &me)
	switch err = failed("ask whose token it is", err); {
	case err != nil && !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrNotFound):
		return author{}, err
	case err == nil && me.GetLogin() != "":
		return author{login: me.GetLogin()}, nil
	case c.gitea():
		return author{gitea: true}, nil
	}
	return author{login: c.viewer(ctx)}, nil
}

// viewer is whom GraphQL takes the token for; empty where it does not say.
func (c *Client) viewer(ctx context.Context) string {
	at := "graphql"
	if strings.HasSuffix(c.transport.base.Path, "/api/v3/") { // GitHub Enterprise
		at = "../graphql"
	}
	req, err := c.api.NewRequest(http.MethodPost, at, map[string]string{"query": "query{viewer{login}}"})
	if err != nil {
		return ""
	}
	var answer struct {
		Data struct {
			Viewer struct {
				Login string `json:"login"`
			} `json:"viewer"`
		} `json:"data"`
	}
	if _, err := c.api.Do(mayRepeat(ctx), req, &answer); err != nil {
		return ""
	}
	return answer.Data.Viewer.Login
}

func (c *Client) comment(pull int, m *gh.IssueComment) *Comment {
	return &Comment{
		ID: m.GetID(), Body: m.GetBody(),
		URL: fmt.Sprintf("%s/%s/pull/%d#issuecomment-%d", c.server, c.Repo(), pull, m.GetID()),
	}
}

// Comment writes a comment whose first line is its marker: in place of our own if
// there is one, else anew. One that a failing server may have written after all is
// looked for before it is written again.
func (c *Client) Comment(ctx context.Context, pull int, body string) (*Comment, error) {
	marker, _, _ := strings.Cut(body, "\n")
	if !strings.HasPrefix(marker, "<!-- ") || !strings.HasSuffix(marker, " -->") {
		return nil, errors.New("write the comment: it does not begin with a marker")
	}
	what := fmt.Sprintf("write the comment on #%d", pull)
	var last error
	for range 3 {
		old, err := c.FindComment(ctx, pull, marker)
		if err != nil {
			return nil, err
		}
		if old != nil && old.Body == body {
			return old, nil
		}
		text := &gh.IssueComment{Body: &body}
		var m *gh.IssueComment
		var resp *gh.Response
		if old != nil {
			m, resp, err = c.api.Issues.EditComment(ctx, c.owner, c.name, old.ID, text)
		} else {
			m, resp, err = c.api.Issues.CreateComment(ctx, c.owner, c.name, pull, text)
		}
		if err == nil {
			return c.comment(pull, m), nil
		}
		last = failed(what, err)
		// Deleted since, or perhaps written: both are found out by looking again.
		again := resp != nil && (resp.StatusCode >= 500 || old != nil && resp.StatusCode == http.StatusNotFound)
		if !again && resp != nil || ctx.Err() != nil {
			return nil, last
		}
		if err := c.transport.sleep(ctx, 1e9); err != nil {
			return nil, err
		}
	}
	return nil, last
}

// State is that of a commit status.
type State string

// The states.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
	Error   State = "error"
)

// StatusContext is the stable name of the status of a report, which can be
// required.
func StatusContext(id string) string {
	if id == "" {
		id = "default"
	}
	return "ebpf-bench/" + id
}

// Status sets the commit status of a report. The description is cut to 140
// characters. The target is a page of the run; empty: none.
func (c *Client) Status(ctx context.Context, sha, id string, s State, description, target string) error {
	if !isSHA(sha) {
		return fmt.Errorf("set the status: %.80q is not a commit", sha)
	}
	description = shorten(description, MaxDescription)
	status := &gh.RepoStatus{State: gh.String(string(s)), Context: gh.String(StatusContext(id)), Description: &description}
	if target != "" {
		status.TargetURL = &target
	}
	// The newest status of a context counts, so that twice is once.
	_, _, err := c.api.Repositories.CreateStatus(mayRepeat(ctx), c.owner, c.name, sha, status)
	return failed("set the status of "+short(sha), err)
}

// RunURL is the page of a workflow run.
func (c *Client) RunURL(run int64) string {
	return fmt.Sprintf("%s/%s/actions/runs/%d", c.server, c.Repo(), run)
}

// shorten makes one line of at most n characters, without control characters.
func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))), " ")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:n-1])) + "…"
}
