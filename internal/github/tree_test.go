package github

import (
	"fmt"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
)

func TestTree(t *testing.T) {
	s, c, _ := forge(t)
	s.PerPage = 3
	want := []string{}
	for i := range 8 {
		name := fmt.Sprintf("src/%d.c", i)
		want = append(want, name)
		s.Files[sha(1)+":"+name] = ""
	}
	s.Files[sha(2)+":other.c"] = ""
	if files, err := c.Tree(t.Context(), sha(1)); err != nil || !slices.Equal(files, want) || len(s.Log) != 1 {
		t.Errorf("%v, %v, %v", files, err, s.Log)
	}
	gitea, err := New("o/r", Options{Token: githubtest.Token, API: s.API.URL + "/api/v1"})
	if err != nil {
		t.Fatal(err)
	}
	if files, err := gitea.Tree(t.Context(), sha(1)); err != nil || !slices.Equal(files, want) {
		t.Errorf("Gitea: %v, %v", files, err)
	}
	for _, bad := range []string{"main", sha(9)} {
		if files, err := c.Tree(t.Context(), bad); err == nil {
			t.Errorf("%s: %v", bad, files)
		}
	}
}

func TestLineURL(t *testing.T) {
	_, c, _ := forge(t)
	if got, want := c.LineURL(sha(1), "a b/ü(1)#?&](x.c", 12), "https://github.example/o/r/blob/"+sha(1)+"/a%20b/%C3%BC%281%29%23%3F%26%5D%28x.c#L12"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	gitea, err := New("o/r", Options{API: "https://gitea.example/api/v1"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := gitea.LineURL(sha(1), "x.c", 1), "https://gitea.example/o/r/src/commit/"+sha(1)+"/x.c#L1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
