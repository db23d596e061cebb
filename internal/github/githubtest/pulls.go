package githubtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

func (c *Comment) json() map[string]any {
	return map[string]any{"id": c.ID, "body": c.Body, "user": map[string]any{"login": c.Login, "type": c.Type}}
}

func (s *Server) comments(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	for _, c := range s.Comments {
		if int64(c.Pull) == number(r, "n") {
			list = append(list, c.json())
		}
	}
	page(s, w, r, list, "")
}

// body reads what a comment may be; GitHub answers 422 to more.
func body(w http.ResponseWriter, r *http.Request) (string, bool) {
	var in struct{ Body string }
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Body == "" || utf8.RuneCountInString(in.Body) > 65536 {
		refuse(w, 422, "Validation Failed")
		return "", false
	}
	return in.Body, true
}

// Me is who writes with the token.
func (s *Server) me() (login, kind string) {
	switch {
	case s.User != "":
		return s.User, "User"
	case s.App != "":
		return s.App, "Bot"
	}
	return "github-actions[bot]", "Bot"
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	if text, ok := body(w, r); ok {
		s.nextID++
		c := &Comment{ID: s.nextID, Pull: int(number(r, "n")), Body: text}
		c.Login, c.Type = s.me()
		s.Comments = append(s.Comments, c)
		send(w, 201, c.json())
	}
}

func (s *Server) edit(w http.ResponseWriter, r *http.Request) {
	for _, c := range s.Comments {
		if c.ID != number(r, "id") {
			continue
		}
		if text, ok := body(w, r); ok {
			c.Body = text
			c.Edits++
			send(w, 200, c.json())
		}
		return
	}
	refuse(w, 404, "Not Found")
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	for _, e := range s.Events {
		if int64(e.Pull) == number(r, "n") {
			list = append(list, map[string]any{
				"event": e.Event, "label": map[string]any{"name": e.Label}, "actor": map[string]any{"login": e.Actor},
				"created_at": e.Created.UTC().Format(time.RFC3339),
			})
		}
	}
	page(s, w, r, list, "")
}

// timeline is Gitea's list of what happened, comments among it, without a word on
// whether there is more.
func (s *Server) timeline(w http.ResponseWriter, r *http.Request) {
	list := []map[string]any{{"type": "comment", "body": "1", "label": nil}}
	for _, e := range s.Events {
		if int64(e.Pull) == number(r, "n") {
			list = append(list, map[string]any{
				"type": "label", "body": map[bool]string{true: "1"}[e.Event == "labeled"], "label": map[string]any{"name": e.Label},
				"user": map[string]any{"login": e.Actor}, "created_at": e.Created.UTC().Format(time.RFC3339),
			})
		}
	}
	page(s, w, r, list, "")
}

func (s *Server) permission(w http.ResponseWriter, r *http.Request) {
	p, ok := s.Permissions[r.PathValue("login")]
	if !ok {
		refuse(w, 404, "Not Found")
		return
	}
	send(w, 200, map[string]any{"permission": p})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	var in struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || utf8.RuneCountInString(in.Description) > 140 {
		refuse(w, 422, "description is too long (maximum is 140 characters)")
		return
	}
	s.Statuses = append(s.Statuses, Status{r.PathValue("sha"), in.State, in.Context, in.Description, in.TargetURL})
	send(w, 201, map[string]any{"id": 1})
}

func (p Pull) json() map[string]any {
	state := p.State
	if state == "" {
		state = "open"
	}
	var repo any = map[string]any{"id": p.HeadRepo}
	if p.HeadRepo == 0 {
		repo = nil
	}
	return map[string]any{
		"number": p.Number, "state": state,
		"head": map[string]any{"ref": p.HeadRef, "sha": p.HeadSHA, "repo": repo},
		"base": map[string]any{"ref": p.BaseRef, "sha": p.BaseSHA},
	}
}

func (s *Server) pulls(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	for _, p := range s.Pulls {
		q := r.URL.Query()
		if h := q.Get("head"); h != "" && h != p.HeadOwner+":"+p.HeadRef || q.Get("state") == "open" && p.State == "closed" {
			continue
		}
		list = append(list, p.json())
	}
	page(s, w, r, list, "")
}

func (s *Server) pull(w http.ResponseWriter, r *http.Request) {
	if n, ok := strings.CutSuffix(r.PathValue("n"), ".diff"); ok { // Gitea
		s.diff(w, n)
		return
	}
	for _, p := range s.Pulls {
		if int64(p.Number) == number(r, "n") {
			send(w, 200, p.json())
			return
		}
	}
	refuse(w, 404, "Not Found")
}

// diff is the whole of a pull request, as git writes it.
func (s *Server) diff(w http.ResponseWriter, number string) {
	for _, p := range s.Pulls {
		if strconv.Itoa(p.Number) != number {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			a, b := "a/"+name, "b/"+name
			if quoted := strconv.QuoteToASCII(name); quoted != `"`+name+`"` {
				a, b = gitQuoted(a), gitQuoted(b)
			}
			fmt.Fprintf(w, "diff --git %s %s\nindex 1..2 100644\n--- %s\n+++ %s\n%s\n", a, b, a, b, strings.TrimSuffix(p.Files[name], "\n"))
		}
	}
}

// gitQuoted is a path as git quotes what is no plain ASCII.
func gitQuoted(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

func (s *Server) files(w http.ResponseWriter, r *http.Request) {
	var list []map[string]any
	for _, p := range s.Pulls {
		if int64(p.Number) != number(r, "n") {
			continue
		}
		for name, patch := range p.Files {
			list = append(list, map[string]any{"filename": name, "patch": patch})
		}
	}
	page(s, w, r, list, "")
}
