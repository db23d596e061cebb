package cli

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// maxSources is how many files of the repository a report reads to check lines.
const maxSources = 8

// sources finds the lines of an artifact in the repository. What an artifact says of
// a line is only a claim: a place counts where head's commit has such a file and the
// line says there what the artifact says that it does.
type sources struct {
	r       *reporting
	changed map[string]map[int]bool // lines of the pull request's diff, by file
	files   []string                // of head's commit; nil: not asked for yet
	texts   map[string][]string
	failed  bool
}

// A place is a line of a file of head's commit, from the top of the repository.
type place struct {
	file string
	line int
}

// find is the place of a line; ok is false where nothing is sure.
func (s *sources) find(ctx context.Context, l bench.LineCount) (p place, ok bool) {
	want := words(l.Text)
	if want == "" || l.Line < 1 {
		return place{}, false
	}
	p.file = s.file(ctx, l.File)
	if p.file == "" {
		return place{}, false
	}
	text := s.text(ctx, p.file)
	// What was measured is the merge with base, whose lines may be shifted.
	for i, line := range text {
		if words(line) == want && (p.line == 0 || distance(i+1, l.Line) < distance(p.line, l.Line)) {
			p.line = i + 1
		}
	}
	return p, p.line > 0
}

func distance(a, b int) int { return max(a-b, b-a) }

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// file is the file of the repository that a compiler meant, which knows it by a path
// from where it ran, or by one of the machine that it ran on.
func (s *sources) file(ctx context.Context, name string) string {
	if s.files == nil && !s.failed {
		files, err := s.r.client.Tree(ctx, s.r.event.HeadSHA)
		if err != nil {
			s.r.say("warning: no links to the source: %v", err)
			s.failed = true
		}
		s.files = files
	}
	dir := path.Dir(path.Clean(s.r.f.config))
	if config.IsPattern(dir) {
		dir = "." // lines of several suites are told from the top
	}
	return sameFile(s.files, s.changed, dir, name)
}

// sameFile finds a compiler's name of a file among those of a repository: below the
// config's directory, else the only one that ends as the name does, else the only such
// one that the pull request changes, else the longest one that the name ends with.
func sameFile(files []string, changed map[string]map[int]bool, dir, name string) string {
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	for strings.HasPrefix(name, "../") {
		name = name[len("../"):]
	}
	if name == "" || name == "." || name == "/" {
		return ""
	}
	if near := path.Join(dir, name); slices.Contains(files, near) {
		return near
	}
	var ends []string
	longest := ""
	for _, f := range files {
		switch {
		case f == name || strings.HasSuffix(f, "/"+name):
			ends = append(ends, f)
		case strings.HasSuffix(name, "/"+f) && len(f) > len(longest):
			longest = f
		}
	}
	if len(ends) > 1 {
		ends = slices.DeleteFunc(ends, func(f string) bool { _, ok := changed[f]; return !ok })
		longest = ""
	}
	if len(ends) == 1 {
		return ends[0]
	}
	return longest
}

// text is a file of head's commit in lines; nil where it cannot be read.
func (s *sources) text(ctx context.Context, file string) []string {
	if text, ok := s.texts[file]; ok || len(s.texts) >= maxSources {
		return text
	}
	if s.texts == nil {
		s.texts = map[string][]string{}
	}
	var lines []string
	if src, err := s.r.client.File(ctx, file, s.r.event.HeadSHA); err == nil {
		lines = strings.Split(string(src), "\n")
	}
	s.texts[file] = lines
	return lines
}

// link is the address of a line, or empty.
func (s *sources) link(ctx context.Context) func(bench.LineCount) string {
	return func(l bench.LineCount) string {
		p, ok := s.find(ctx, l)
		if !ok {
			return ""
		}
		return s.r.client.LineURL(s.r.event.HeadSHA, p.file, p.line)
	}
}
