package github

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// maxTree bounds the files of a commit that are listed; GitHub itself lists 100,000.
const maxTree = 200_000

// Tree lists the files of a commit, slash-separated from the top of the repository.
// Of a tree that the server does not list whole, the first are there.
func (c *Client) Tree(ctx context.Context, sha string) ([]string, error) {
	what := "list the files of " + short(sha)
	if !isSHA(sha) {
		return nil, fmt.Errorf("%s: not a commit", what)
	}
	var files []string
	for page := 1; page <= 100 && len(files) < maxTree; page++ {
		var list struct {
			Tree []struct {
				Path string `json:"path"`
				Type string `json:"type"`
			} `json:"tree"`
			Truncated bool `json:"truncated"`
		}
		q := url.Values{"recursive": {"1"}}
		if c.gitea() { // which lists a thousand at a time
			q.Set("page", strconv.Itoa(page))
		}
		if _, err := c.get(ctx, "git/trees/"+sha, q, &list); err != nil {
			return nil, failed(what, err)
		}
		for _, e := range list.Tree {
			if e.Type == "blob" && len(files) < maxTree {
				files = append(files, e.Path)
			}
		}
		if !c.gitea() || !list.Truncated || len(list.Tree) == 0 {
			break
		}
	}
	return files, nil
}

// LineURL is the page of a line of a file, as it is in a commit. It holds nothing but
// letters, digits and -._~/#% after the server's own address.
func (c *Client) LineURL(sha, path string, line int) string {
	blob := "blob"
	if c.gitea() {
		blob = "src/commit"
	}
	var b strings.Builder
	for i := range len(path) {
		switch ch := path[i]; {
		case ch >= 'a' && ch <= 'z', ch >= 'A' && ch <= 'Z', ch >= '0' && ch <= '9', strings.IndexByte("-._~/", ch) >= 0:
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return fmt.Sprintf("%s/%s/%s/%s/%s#L%d", c.server, c.Repo(), blob, sha, b.String(), line)
}
