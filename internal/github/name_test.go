package github

import (
	"strings"
	"testing"
)

func TestNameRoundTrip(t *testing.T) {
	seen := map[string]string{}
	for _, branch := range []string{"main", "Main", "feat/x", "feat_x", "feat-x", "feat.x", "#1", "a b", "日本", "_2f", "/", "~", "", "a\nb", `"<>|*?:\`, strings.Repeat("x", 90), "%2f", "\xff"} {
		for _, testbed := range []string{"ubuntu-24.04", "", "linux6.11-amd64"} {
			n := Name{Kind: KindRun, ID: "default", Branch: branch, Testbed: testbed, Attempt: 3}
			s := n.String()
			if len(s) > 255 || strings.ContainsAny(s, "\":<>|*?\r\n\\/ #%") || s != strings.ToLower(s) {
				t.Errorf("%q: GitHub or a file system would refuse %q", branch, s)
			}
			if other, ok := seen[s]; ok {
				t.Errorf("%q and %q share %q", branch, other, s)
			}
			seen[s] = branch
			got, err := ParseName(s)
			if err != nil || got != n {
				t.Errorf("ParseName(%q) = %+v, %v, want %+v", s, got, err, n)
			}
		}
	}
}

func TestNameLong(t *testing.T) {
	a := Name{Kind: KindHistory, ID: strings.Repeat("I", 300), Branch: strings.Repeat("ß", 150) + "a", Testbed: strings.Repeat("T", 300), Attempt: 123456789}
	b := a
	b.Branch = strings.Repeat("ß", 150) + "b"
	if len(a.String()) > 255 {
		t.Errorf("%d characters", len(a.String()))
	}
	if a.Key() == b.Key() {
		t.Error("names that differ at the end share a key")
	}
	got, err := ParseName(a.String())
	if err != nil || got.Key() != a.Key() || got.Attempt != a.Attempt || !strings.HasSuffix(got.Branch, "…") {
		t.Errorf("ParseName: %+v, %v", got, err)
	}
	if got.String() != a.String() {
		t.Errorf("%s\n%s", got, a)
	}
}

func TestParseNameForeign(t *testing.T) {
	good := Name{Kind: KindRun, ID: "d", Branch: "main", Testbed: "t", Attempt: 1}.String()
	if _, err := ParseName(good); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"", "logs", good + ".1", strings.Replace(good, "run", "runs", 1), strings.TrimSuffix(good, "1") + "0",
		strings.TrimSuffix(good, "1") + "01", strings.TrimSuffix(good, "1") + "-1", strings.Replace(good, "main", "Main", 1),
		strings.Replace(good, "main", "_6dain", 1), strings.Replace(good, "main", "a_", 1), strings.Replace(good, "main", "_zz", 1),
		strings.Replace(good, "main", "_2F", 1), strings.Replace(good, "main", "../..", 1), strings.Replace(good, "main", "m~1", 1),
		strings.Replace(good, "main", "", 1), good + strings.Repeat("0", 300),
	} {
		if n, err := ParseName(s); err == nil {
			t.Errorf("ParseName(%q) = %+v", s, n)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("ebpf-bench.run.d.main.t.1")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err == nil && n.String() != s {
			t.Errorf("%q became %q", s, n.String())
		}
	})
}
