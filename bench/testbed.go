package bench

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Slug names the testbed in directories and tables: the user's own name for it
// where there is one, else a name derived from what a number depends on, such as
// "linux6.11-amd64-amd-epyc-7763-4cpu-kvm".
//
// A derived slug holds the fields that [Testbed.Differences] compares. The
// kernel counts by major and minor version only: distributions ship a patch
// release every other week, and a history that started afresh each time would
// never grow. Where every instruction of the kernel is counted ([TCG]), it counts by
// its whole release. Clang is left out, since a new compiler changes the program and
// not the testbed: what it costs is to be seen.
func (t Testbed) Slug() string {
	if t.Name != "" {
		return t.Name
	}
	parts := []string{"linux" + orUnknown(slugWord(t.version())), orUnknown(t.Arch), orUnknown(cpuSlug(t.CPU))}
	if t.CPUs > 0 {
		parts = append(parts, strconv.Itoa(t.CPUs)+"cpu")
	}
	if t.Virtualization != "" {
		parts = append(parts, slugWord(t.Virtualization))
	}
	if !t.JIT {
		parts = append(parts, "nojit")
	}
	if t.Hardened {
		parts = append(parts, "hardened")
	}
	return strings.Join(parts, "-")
}

// Equal tells whether noisy numbers of both testbeds may be compared: whether
// there are no [Testbed.Differences].
func (t Testbed) Equal(other Testbed) bool { return len(t.Differences(other)) == 0 }

// Differences says in what the testbeds differ, one phrase each, t's value
// first ("kernel 6.11 and 6.8"); nil where numbers may be compared. A name that
// both share does not excuse another CPU: hosted runners of one name have
// several. Patch releases of one kernel version and clang do not count; see
// [Testbed.Slug].
func (t Testbed) Differences(other Testbed) []string {
	var d []string
	differ := func(what string, a, b any) {
		if a != b {
			d = append(d, fmt.Sprintf("%s %v and %v", what, shown(a), shown(b)))
		}
	}
	differ("testbed", t.Name, other.Name)
	differ("kernel", t.version(), other.version())
	differ("arch", t.Arch, other.Arch)
	differ("cpu", t.CPU, other.CPU)
	differ("number of cpus", t.CPUs, other.CPUs)
	differ("jit", t.JIT, other.JIT)
	differ("spectre hardening", t.Hardened, other.Hardened)
	differ("virtualization", t.Virtualization, other.Virtualization)
	return d
}

// HasKernel tells whether a pattern, as in [path.Match], names the testbed's kernel:
// by its version ("6.1", "5.*") or by its release ("6.8.0-*-azure").
func (t Testbed) HasKernel(pattern string) bool {
	for _, name := range []string{t.minor(), t.Kernel} {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// TCG is the virtualization of a testbed that counts instructions: QEMU's TCG with
// -icount.
const TCG = "tcg-icount"

// version is what of the kernel's release a number depends on.
func (t Testbed) version() string {
	if t.Virtualization == TCG {
		return t.Kernel
	}
	return t.minor()
}

// minor is the kernel's major and minor version: "6.11" of "6.11.0-1018-azure".
// A release without them is returned whole.
func (t Testbed) minor() string {
	major, rest, ok := strings.Cut(t.Kernel, ".")
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if !ok || end == 0 {
		return t.Kernel
	}
	return major + "." + rest[:end]
}

// cpuSlug shortens a model name by what says nothing: "Intel(R) Xeon(R) CPU E5-2673 v4
// @ 2.30GHz" is intel-xeon-e5-2673-v4.
func cpuSlug(model string) string {
	model, _, _ = strings.Cut(model, "@")
	model = strings.NewReplacer("(R)", " ", "(r)", " ", "(TM)", " ", "(tm)", " ").Replace(model)
	var words []string
	for _, w := range strings.Fields(strings.ToLower(model)) {
		if w == "cpu" || w == "processor" || strings.HasSuffix(w, "-core") {
			continue
		}
		if w = slugWord(w); w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, "-")
}

// slugWord keeps letters, digits, '.' and '_' in lower case; all else is '-'.
func slugWord(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		default:
			return '-'
		}
	}, strings.ToLower(s))
	return strings.Trim(s, "-.")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func shown(v any) any {
	switch v {
	case "":
		return "none"
	case true:
		return "on"
	case false:
		return "off"
	}
	return v
}
