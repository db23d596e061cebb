package github

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is what an artifact holds.
type Kind string

// The kinds.
const (
	KindRun     Kind = "run"     // the runs of one measuring job
	KindHistory Kind = "history" // the roll-up of a branch
)

const (
	namePrefix = "ebpf-bench"
	// GitHub allows 256 characters, file systems 255; a name becomes a directory
	// when it is downloaded.
	maxNameID, maxNameBranch, maxNameTestbed = 50, 90, 70
	// cut ends the beginning of a name that is too long; its digest follows.
	cut       = "~"
	digestLen = 16
)

// A Name is the name of an artifact. It only helps to find the artifact: anybody
// can give theirs any name.
type Name struct {
	Kind Kind
	// ID is the report's, so that two suites of one repository keep apart.
	ID      string
	Branch  string
	Testbed string // empty: all of them, in one roll-up
	Attempt int    // of the workflow run, from 1
	key     string
}

// String is the artifact's name: lower-case letters, digits and '-' stand as they
// are, every other byte is _xx, a '.' stands between the parts. So no two names
// share one, not even where case is not told apart, and [ParseName] has it back.
// Of a part that is too long (90 characters of a branch, 70 of a testbed) only the
// beginning stands, and a digest.
func (n Name) String() string {
	return fmt.Sprintf("%s.%d", n.Key(), max(n.Attempt, 1))
}

// Key is the name without the attempt: the same for every attempt of a job.
func (n Name) Key() string {
	if n.key != "" {
		return n.key
	}
	return n.prefix() + part(n.Testbed, maxNameTestbed)
}

// prefix is the key without the testbed.
func (n Name) prefix() string {
	return strings.Join([]string{namePrefix, string(n.Kind), part(n.ID, maxNameID), part(n.Branch, maxNameBranch), ""}, ".")
}

// part encodes one part; the empty one is "_".
func part(s string, most int) string {
	if s == "" {
		return "_"
	}
	var b strings.Builder
	short := -1 // where to cut, should it be too long
	for i := range len(s) {
		if b.Len() <= most-len(cut)-digestLen {
			short = b.Len()
		}
		if c := s[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() <= most {
		return b.String()
	}
	sum := sha256.Sum256([]byte(s))
	return b.String()[:short] + cut + hex.EncodeToString(sum[:])[:digestLen]
}

// errForeign is that an artifact is not one of ours.
var errForeign = errors.New("not the name of an artifact of gate")

// ParseName reads a name that [Name.String] wrote; any other is an error. A part
// that was cut comes back as its beginning and "…", for people; Key still tells
// it apart.
func ParseName(s string) (Name, error) {
	parts := strings.Split(s, ".")
	if len(s) > 256 || len(parts) != 6 || parts[0] != namePrefix {
		return Name{}, errForeign
	}
	n := Name{Kind: Kind(parts[1])}
	if n.Kind != KindRun && n.Kind != KindHistory {
		return Name{}, errForeign
	}
	for i, to := range []*string{&n.ID, &n.Branch, &n.Testbed} {
		var ok bool
		if *to, ok = unpart(parts[2+i]); !ok {
			return Name{}, errForeign
		}
	}
	attempt, err := strconv.Atoi(parts[5])
	if err != nil || attempt < 1 || strconv.Itoa(attempt) != parts[5] {
		return Name{}, errForeign
	}
	n.Attempt = attempt
	for i, most := range []int{maxNameID, maxNameBranch, maxNameTestbed} {
		p := parts[2+i]
		if strings.Contains(p, cut) {
			n.key = s[:strings.LastIndexByte(s, '.')]
			continue
		}
		if part([]string{n.ID, n.Branch, n.Testbed}[i], most) != p {
			return Name{}, errForeign // not how we write it
		}
	}
	return n, nil
}

func unpart(p string) (string, bool) {
	if p == "_" {
		return "", true
	}
	p, digest, wasCut := strings.Cut(p, cut)
	if p == "" || wasCut && (len(digest) != digestLen || strings.Trim(digest, "0123456789abcdef") != "") {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] != '_' {
			b.WriteByte(p[i])
			continue
		}
		if i+2 >= len(p) {
			return "", false
		}
		c, err := strconv.ParseUint(p[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	if wasCut {
		b.WriteString("…")
	}
	return b.String(), true
}
