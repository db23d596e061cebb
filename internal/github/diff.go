package github

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	gh "github.com/google/go-github/v60/github"
)

// maxDiff is the longest diff that is read where the API does not tell one file at a
// time, in bytes.
const maxDiff = 8 << 20

// DiffLines are the lines that a pull request adds or changes, by file: where an
// annotation is shown.
func (c *Client) DiffLines(ctx context.Context, pull int) (map[string]map[int]bool, error) {
	what := fmt.Sprintf("read the diff of #%d", pull)
	if c.gitea() { // its list of files has no patches
		var diff bytes.Buffer
		if _, err := c.get(ctx, fmt.Sprintf("pulls/%d.diff", pull), nil, &capped{&diff, maxDiff}); err != nil {
			return nil, failed(what, err)
		}
		return addedLines("", diff.String()), nil
	}
	lines := map[string]map[int]bool{}
	for page := 1; page <= 10; {
		files, resp, err := c.api.PullRequests.ListFiles(ctx, c.owner, c.name, pull, &gh.ListOptions{PerPage: perPage, Page: page})
		if err != nil {
			return nil, failed(what, err)
		}
		for _, f := range files {
			lines[f.GetFilename()] = addedLines(f.GetFilename(), f.GetPatch())[f.GetFilename()]
		}
		if page = resp.NextPage; page == 0 {
			break
		}
	}
	return lines, nil
}

// capped drops what comes after so many bytes.
type capped struct {
	w    io.Writer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hunk begins a part of a unified diff: how many lines follow of the old file and of
// the new one, which of the new one is the first.
var hunk = regexp.MustCompile(`^@@ -[0-9]+(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@`)

// addedLines are the new numbers of the added lines of a unified diff, by file. What
// comes before it names one is of the given file. Lines are counted as the hunks say,
// since one that is added may look like the name of a file.
func addedLines(file, diff string) map[string]map[int]bool {
	lines := map[string]map[int]bool{}
	if file != "" {
		lines[file] = map[int]bool{}
	}
	var old, added, n int // lines of the hunk that are still to come, and the next one's number
	count := func(s string) int {
		if s == "" {
			return 1 // what is left out
		}
		v, _ := strconv.Atoi(s)
		return v
	}
	for l := range strings.SplitSeq(diff, "\n") {
		if old <= 0 && added <= 0 {
			if m := hunk.FindStringSubmatch(l); m != nil {
				old, n, added = count(m[1]), count(m[2]), count(m[3])
			} else if name, ok := strings.CutPrefix(l, "+++ "); ok {
				if file = diffName(name); file != "" {
					lines[file] = map[int]bool{}
				}
			}
			continue
		}
		switch {
		case strings.HasPrefix(l, `\`): // no newline at the end
		case strings.HasPrefix(l, "-"):
			old--
		case strings.HasPrefix(l, "+"):
			if file != "" {
				lines[file][n] = true
			}
			added--
			n++
		default:
			old--
			added--
			n++
		}
	}
	return lines
}

// diffName is the file in "b/a.c", or in "\"b/\\303\\274.c\"" as git quotes it; empty: none,
// since it was removed.
func diffName(s string) string {
	if strings.HasPrefix(s, `"`) {
		var err error
		if s, err = strconv.Unquote(s); err != nil {
			return ""
		}
	}
	name, ok := strings.CutPrefix(strings.TrimSuffix(s, "\t"), "b/") // a tab follows names with spaces
	if !ok {
		return ""
	}
	return name
}
