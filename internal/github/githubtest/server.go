// Package githubtest is a forge for tests: it answers as GitHub's documentation of
// its REST API says, pages its lists, redirects downloads to another host, and
// fails on request. Nothing but tests imports it.
package githubtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Token is the one that the server knows.
const Token = "ghs_secret"

// A Run is a workflow run.
type Run struct {
	ID                       int64
	Attempt                  int
	Event, Path, Branch, SHA string
	HeadRepo, Repo           int64
	Created                  time.Time
	OmitHeadRepo, OmitPath   bool
	OmitCreated              bool
	Status                   string
}

// An Artifact is one of a run.
type Artifact struct {
	ID      int64
	Run     int64
	Name    string
	Zip     []byte
	Expired bool
	Size    int64 // 0: that of Zip
}

// A Comment on a pull request.
type Comment struct {
	ID          int64
	Pull        int
	Login, Type string
	Body        string
	Edits       int
}

// A Status of a commit.
type Status struct{ SHA, State, Context, Description, TargetURL string }

// A Pull request.
type Pull struct {
	Number                      int
	HeadOwner, HeadRef, HeadSHA string
	HeadRepo                    int64
	BaseRef, BaseSHA, State     string
	Files                       map[string]string // patches
}

// An IssueEvent is one of a pull request's timeline.
type IssueEvent struct {
	Pull                int
	Event, Label, Actor string
	Created             time.Time
}

// A Failure is the answer to a request instead of the usual one.
type Failure struct {
	Code   int
	Header map[string]string
	Body   string
}

// A Server is the forge. Change its fields before the first request, or hold Lock.
type Server struct {
	sync.Mutex
	API, Blobs *httptest.Server

	RepoID    int64
	Runs      []Run
	Artifacts []Artifact
	Comments  []*Comment
	Statuses  []Status
	Pulls     []Pull
	Events    []IssueEvent
	// Commits are the ancestors of a commit, itself first.
	Commits map[string][]string
	// Branches are the newest commits.
	Branches map[string]string
	// Files are contents by "sha:path".
	Files map[string]string
	// Permissions by login.
	Permissions map[string]string
	// User is whose token it is; empty: that of a GitHub App, which may not ask REST.
	User string
	// App is the App's login; empty: github-actions[bot], the job's own.
	App string
	// Viewerless refuses GraphQL.
	Viewerless bool
	// NoFilters ignores what lists are asked to be filtered by, as some forges do.
	NoFilters bool
	// PerPage caps pages.
	PerPage int
	Latency time.Duration
	// Fail is asked first; nil or nil result: no failure.
	Fail func(r *http.Request) *Failure
	// ReadOnly refuses every write with 403.
	ReadOnly bool

	// Log holds "METHOD path" of every request to the API.
	Log []string
	// Leaked tells that the token reached the host of the downloads.
	Leaked bool
	// Served counts downloads by artifact.
	Served map[int64]int
	nextID int64
}

// New starts a forge with an empty repository "o/r" of number 1.
func New() *Server {
	s := &Server{RepoID: 1, Commits: map[string][]string{}, Files: map[string]string{}, Permissions: map[string]string{}, Served: map[int64]int{}, PerPage: 100, nextID: 1000}
	s.Blobs = httptest.NewServer(http.HandlerFunc(s.blob))
	mux := http.NewServeMux()
	const repo = "/repos/o/r"
	mux.HandleFunc("GET /user", s.user)
	mux.HandleFunc("POST /graphql", s.graphql)
	mux.HandleFunc("POST /api/graphql", s.graphql)
	mux.HandleFunc("GET "+repo+"/git/trees/{sha}", s.tree)
	mux.HandleFunc("GET "+repo, func(w http.ResponseWriter, _ *http.Request) {
		send(w, 200, map[string]any{"id": s.RepoID, "full_name": "o/r"})
	})
	mux.HandleFunc("GET "+repo+"/actions/workflows/{file}/runs", s.runs)
	mux.HandleFunc("GET "+repo+"/actions/runs", s.runs)
	mux.HandleFunc("GET "+repo+"/actions/runs/{id}", s.run)
	mux.HandleFunc("GET "+repo+"/actions/runs/{id}/artifacts", s.artifacts)
	mux.HandleFunc("GET "+repo+"/actions/runs/{id}/jobs", s.jobs)
	mux.HandleFunc("GET "+repo+"/actions/artifacts/{id}/zip", s.zip)
	mux.HandleFunc("GET "+repo+"/branches/{branch}", func(w http.ResponseWriter, r *http.Request) {
		if sha, ok := s.Branches[r.PathValue("branch")]; ok {
			send(w, 200, map[string]any{"commit": map[string]any{"sha": sha}})
			return
		}
		refuse(w, 404, "Branch not found")
	})
	mux.HandleFunc("GET "+repo+"/commits", s.commits)
	mux.HandleFunc("GET "+repo+"/compare/{range}", s.compare)
	mux.HandleFunc("GET "+repo+"/issues/{n}/comments", s.comments)
	mux.HandleFunc("POST "+repo+"/issues/{n}/comments", s.create)
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{id}", s.edit)
	mux.HandleFunc("GET "+repo+"/issues/{n}/events", s.events)
	mux.HandleFunc("GET "+repo+"/issues/{n}/timeline", s.timeline)
	mux.HandleFunc("GET "+repo+"/collaborators/{login}/permission", s.permission)
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", s.status)
	mux.HandleFunc("GET "+repo+"/pulls", s.pulls)
	mux.HandleFunc("GET "+repo+"/pulls/{n}", s.pull)
	mux.HandleFunc("GET "+repo+"/pulls/{n}/files", s.files)
	mux.HandleFunc("GET "+repo+"/contents/{path...}", s.contents)
	s.API = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(s.Latency)
		s.Lock()
		defer s.Unlock()
		if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1"); ok { // as Gitea has it
			r.URL.Path = rest
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v3"); ok { // GitHub Enterprise
			r.URL.Path = rest
		}
		s.Log = append(s.Log, r.Method+" "+r.URL.Path)
		if s.Fail != nil {
			if f := s.Fail(r); f != nil {
				for k, v := range f.Header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(f.Code)
				fmt.Fprint(w, f.Body)
				return
			}
		}
		if r.Header.Get("Authorization") != "Bearer "+Token {
			refuse(w, 401, "Bad credentials")
			return
		}
		if s.ReadOnly && r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/graphql") {
			refuse(w, 403, "Resource not accessible by integration")
			return
		}
		w.Header().Set("X-RateLimit-Limit", "1000")
		w.Header().Set("X-RateLimit-Remaining", "900")
		mux.ServeHTTP(w, r)
	}))
	return s
}

// Close stops it.
func (s *Server) Close() { s.API.Close(); s.Blobs.Close() }

// Logged counts requests whose "METHOD path" begins so.
func (s *Server) Logged(prefix string) int {
	s.Lock()
	defer s.Unlock()
	n := 0
	for _, l := range s.Log {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func send(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, message string) {
	send(w, code, map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

// page sends a part of a list, with the Link header of what follows.
func page[T any](s *Server, w http.ResponseWriter, r *http.Request, all []T, key string) {
	n, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	if n <= 0 {
		n = 30
	}
	n = min(n, 100, s.PerPage)
	p, _ := strconv.Atoi(r.URL.Query().Get("page"))
	p = max(p, 1)
	from := min((p-1)*n, len(all))
	to := min(from+n, len(all))
	if to < len(all) {
		u := *r.URL
		q := u.Query()
		q.Set("page", strconv.Itoa(p+1))
		u.RawQuery = q.Encode()
		w.Header().Set("Link", fmt.Sprintf("<%s%s>; rel=\"next\"", s.API.URL, u.String()))
	}
	part := append([]T{}, all[from:to]...)
	if key == "" {
		send(w, 200, part)
		return
	}
	send(w, 200, map[string]any{"total_count": len(all), key: part})
}

func number(r *http.Request, key string) int64 {
	n, _ := strconv.ParseInt(r.PathValue(key), 10, 64)
	return n
}

func (s *Server) user(w http.ResponseWriter, _ *http.Request) {
	if s.User == "" {
		refuse(w, 403, "Resource not accessible by integration")
		return
	}
	send(w, 200, map[string]any{"login": s.User})
}

func (s *Server) graphql(w http.ResponseWriter, r *http.Request) {
	var in struct{ Query string }
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Query != "query{viewer{login}}" {
		refuse(w, 400, "Problems parsing JSON")
		return
	}
	if s.Viewerless { // an error of GraphQL's comes with 200
		send(w, 200, map[string]any{"data": nil, "errors": []any{map[string]any{"message": "Resource not accessible by integration"}}})
		return
	}
	login, _ := s.me()
	send(w, 200, map[string]any{"data": map[string]any{"viewer": map[string]any{"login": login}}})
}

// tree lists the files of a commit.
func (s *Server) tree(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	dirs := map[string]bool{}
	for name := range s.Files {
		sha, name, _ := strings.Cut(name, ":")
		if sha != r.PathValue("sha") {
			continue
		}
		list = append(list, map[string]any{"path": name, "type": "blob", "mode": "100644"})
		if dir := path.Dir(name); !dirs[dir] {
			dirs[dir] = true
			list = append(list, map[string]any{"path": dir, "type": "tree", "mode": "040000"})
		}
	}
	if list == nil || r.URL.Query().Get("recursive") == "" {
		refuse(w, 404, "Not Found")
		return
	}
	from, to := 0, len(list)
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil { // only Gitea pages
		from, to = min((n-1)*s.PerPage, to), min(n*s.PerPage, to)
	}
	slices.SortFunc(list, func(a, b map[string]any) int { return strings.Compare(a["path"].(string), b["path"].(string)) })
	send(w, 200, map[string]any{"sha": r.PathValue("sha"), "tree": list[from:to], "truncated": to < len(list)})
}

func (r Run) json() map[string]any {
	m := map[string]any{
		"id": r.ID, "run_attempt": max(r.Attempt, 1), "event": r.Event, "head_branch": r.Branch, "head_sha": r.SHA,
		"created_at": r.Created.UTC().Format(time.RFC3339), "status": r.Status, "repository": map[string]any{"id": r.Repo},
	}
	if r.OmitCreated {
		delete(m, "created_at")
	}
	if !r.OmitPath {
		m["path"] = r.Path
	}
	if !r.OmitHeadRepo {
		m["head_repository"] = map[string]any{"id": r.HeadRepo}
	}
	return m
}

func (s *Server) runs(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	is := func(key, value string) bool {
		want := r.URL.Query().Get(key)
		return want == "" || want == value || s.NoFilters
	}
	for _, run := range s.Runs {
		if is("branch", run.Branch) && is("event", run.Event) && is("head_sha", run.SHA) &&
			(r.PathValue("file") == "" || strings.HasSuffix(run.Path, "/"+r.PathValue("file"))) {
			list = append(list, run.json())
		}
	}
	page(s, w, r, list, "workflow_runs")
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	for _, run := range s.Runs {
		if run.ID == number(r, "id") {
			send(w, 200, run.json())
			return
		}
	}
	refuse(w, 404, "Not Found")
}

// jobs are two of each run: when they were made is all that Gitea tells of when a
// run was.
func (s *Server) jobs(w http.ResponseWriter, r *http.Request) {
	for _, run := range s.Runs {
		if run.ID == number(r, "id") {
			later, first := run.Created.Add(time.Minute), run.Created
			send(w, 200, map[string]any{"total_count": 2, "jobs": []any{
				map[string]any{"id": 2, "created_at": later.UTC().Format(time.RFC3339)}, map[string]any{"id": 1, "created_at": first.UTC().Format(time.RFC3339)},
			}})
			return
		}
	}
	refuse(w, 404, "Not Found")
}

func (s *Server) artifacts(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	for _, a := range s.Artifacts {
		if name := r.URL.Query().Get("name"); a.Run == number(r, "id") && (name == "" || name == a.Name) {
			size := a.Size
			if size == 0 {
				size = int64(len(a.Zip))
			}
			list = append(list, map[string]any{"id": a.ID, "name": a.Name, "size_in_bytes": size, "expired": a.Expired, "created_at": "2026-01-01T00:00:00Z"})
		}
	}
	page(s, w, r, list, "artifacts")
}

func (s *Server) zip(w http.ResponseWriter, r *http.Request) {
	for _, a := range s.Artifacts {
		if a.ID == number(r, "id") {
			if a.Expired {
				refuse(w, 410, "Artifact has expired")
				return
			}
			w.Header().Set("Location", fmt.Sprintf("%s/%d?sig=secret", s.Blobs.URL, a.ID))
			w.WriteHeader(http.StatusFound)
			return
		}
	}
	refuse(w, 404, "Not Found")
}

func (s *Server) blob(w http.ResponseWriter, r *http.Request) {
	time.Sleep(s.Latency)
	s.Lock()
	defer s.Unlock()
	if r.Header.Get("Authorization") != "" {
		s.Leaked = true
		w.WriteHeader(http.StatusBadRequest) // as Azure does
		return
	}
	id, _ := strconv.ParseInt(strings.Trim(r.URL.Path, "/"), 10, 64)
	for _, a := range s.Artifacts {
		if a.ID == id && r.URL.Query().Get("sig") == "secret" {
			s.Served[id]++
			_, _ = w.Write(a.Zip)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (s *Server) commits(w http.ResponseWriter, r *http.Request) {
	all, ok := s.Commits[r.URL.Query().Get("sha")]
	if !ok {
		refuse(w, 404, "Not Found")
		return
	}
	var list []map[string]any
	for _, sha := range all {
		list = append(list, map[string]any{"sha": sha})
	}
	page(s, w, r, list, "")
}

func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	base, head, _ := strings.Cut(r.PathValue("range"), "...")
	ancestors, known := s.Commits[base]
	if !known {
		refuse(w, 404, "Not Found")
		return
	}
	i := slices.Index(ancestors, head)
	switch {
	case i == 0:
		send(w, 200, map[string]any{"status": "identical", "ahead_by": 0, "behind_by": 0, "total_commits": 0})
	case i > 0:
		send(w, 200, map[string]any{"status": "behind", "ahead_by": 0, "behind_by": i, "total_commits": 0})
	default:
		send(w, 200, map[string]any{"status": "diverged", "ahead_by": 1, "behind_by": 1, "total_commits": 1})
	}
}

func (s *Server) contents(w http.ResponseWriter, r *http.Request) {
	text, ok := s.Files[r.URL.Query().Get("ref")+":"+r.PathValue("path")]
	if !ok {
		refuse(w, 404, "Not Found")
		return
	}
	send(w, 200, map[string]any{"type": "file", "encoding": "base64", "size": len(text), "content": base64.StdEncoding.EncodeToString([]byte(text))})
}
