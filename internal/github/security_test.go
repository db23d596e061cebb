package github

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of docs/security.md names a test that exists.
func TestSecurityRowsHaveTests(t *testing.T) {
	doc, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	fn := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		src, err := os.ReadFile(name)
		for _, m := range fn.FindAllStringSubmatch(string(src), -1) {
			known[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| threat") {
			continue
		}
		rows++
		names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 && !strings.Contains(line, "`make ") {
			t.Errorf("no test: %s", line)
		}
		for _, n := range names {
			if !known[n[1]] {
				t.Errorf("no such test: %s", n[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("only found %d rows", rows)
	}
}
