package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	all := []string{"lb/ebpf-bench.yml", "ebpf-bench.yml", "fw/ebpf-bench.yml", "fw/other.yml", "a/b/ebpf-bench.yml", "ebpf-bench.fast.yml", "x:y/z.yml"}
	for pattern, want := range map[string]string{
		"*/ebpf-bench.yml":    "fw=fw/ebpf-bench.yml lb=lb/ebpf-bench.yml",
		"./*/ebpf-bench.yml":  "fw=fw/ebpf-bench.yml lb=lb/ebpf-bench.yml",
		"*/*/ebpf-bench.yml":  "a/b=a/b/ebpf-bench.yml",
		"ebpf-bench*.yml":     ".=ebpf-bench.yml ebpf-bench.fast=ebpf-bench.fast.yml",
		"fw/*.yml":            "fw=fw/ebpf-bench.yml fw/other=fw/other.yml",
		"[lf]?/ebpf-bench.ym": "",
		"*/z.yml":             "error: neither colons",
		"*/[":                 "error: not a pattern",
	} {
		found, err := Select(all, pattern)
		var got []string
		for _, f := range found {
			got = append(got, f.Suite+"="+f.Path)
		}
		if rest, ok := strings.CutPrefix(want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), rest) {
				t.Errorf("%s: %v, want %q", pattern, err, rest)
			}
		} else if s := strings.Join(got, " "); s != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", pattern, s, err, want)
		}
	}
	if _, err := Select([]string{"lb/ebpf-bench.yml", "lb.yml"}, "lb*"); err != nil {
		t.Errorf("another directory: %v", err)
	}
	if _, err := Select([]string{"a/x.yml", "a/x.yaml"}, "*/x.*"); err == nil || !strings.Contains(err.Error(), "would both be the suite a/x") {
		t.Errorf("%v", err)
	}
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("%d/ebpf-bench.yml", i))
	}
	if _, err := Select(many, "*/ebpf-bench.yml"); err == nil || !strings.Contains(err.Error(), "at most 64") {
		t.Errorf("%v", err)
	}
}

func TestFiles(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{".git/HEAD", "s[x]/lb/ebpf-bench.yml", "s[x]/fw/ebpf-bench.yml", "s[x]/dir/ebpf-bench.yml/x", "other/ebpf-bench.yml"} {
		file := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(top, "s[x]")
	root, err := Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(root, "s[x]")
	found, err := Files(root, dir, "*/ebpf-bench.yml")
	if err != nil || len(found) != 2 || found[0] != (File{"s[x]/fw", "s[x]/fw/ebpf-bench.yml"}) || found[1].Suite != "s[x]/lb" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := Files(root, dir, "*/none.yml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	for _, bad := range []string{"../*/ebpf-bench.yml", "/etc/*", "[", ""} {
		if f, err := Files(root, dir, bad); err == nil {
			t.Errorf("%q: %+v", bad, f)
		}
	}
	if _, err := Files(dir, root, "*"); err == nil {
		t.Error("root lies in dir")
	}
	plain := t.TempDir()
	if r, err := Root(plain); err != nil || !strings.HasSuffix(r, filepath.Base(plain)) {
		t.Errorf("outside of a repository: %s, %v", r, err)
	}
}
