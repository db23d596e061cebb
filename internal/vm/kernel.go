package vm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Kernel is one that a [Machine] can boot.
type Kernel struct {
	// Name is how it was asked for: "6.12", or a path.
	Name string
	// Release is what uname -r will say; empty where only booting tells.
	Release string
	// Source says where it comes from: a package and its version, or a file.
	Source string

	dir      string // in the cache; empty: image
	manifest manifest
	image    string // a bzImage or vmlinux
}

// A manifest describes a kernel in the cache, and lies beside its files.
type manifest struct {
	Release string `json:"release"`
	Source  string `json:"source"`
	// Files are the SHA-256 of each, in hex. "kernel" is what is booted.
	Files map[string]string `json:"files"`
}

const (
	manifestFile = "kernel.json"
	bootFile     = "kernel"
)

// Modules are those of the kernel that a guest may want to load: names, as modprobe
// knows them, to files. Only a kernel of a package has some.
func (k *Kernel) Modules() map[string]string {
	all := map[string]string{}
	for name := range k.manifest.Files {
		if base, ok := strings.CutPrefix(name, "modules/"); ok {
			all[strings.SplitN(base, ".", 2)[0]] = filepath.Join(k.dir, name)
		}
	}
	return all
}

// Config is the file of the kernel's configuration; empty where there is none.
func (k *Kernel) Config() string {
	if k.dir == "" || k.manifest.Files["config"] == "" {
		return ""
	}
	return filepath.Join(k.dir, "config")
}

// version is what a kernel is asked for by, when it is no path.
var version = regexp.MustCompile(`^[0-9]+\.[0-9]+([.+~-]+[0-9a-z]+)*$`)

// IsVersion tells whether a kernel is named by its version, and not as a file.
func IsVersion(name string) bool { return version.MatchString(name) && len(name) < 64 }

// fits tells whether a release is of the version that was asked for: 6.1 is 6.1.0-56
// and not 6.12.
func fits(release, want string) bool {
	rest, ok := strings.CutPrefix(release, want)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// FindKernel finds a kernel: the file of that name, or the newest of that version in
// the cache, in /boot, or among the packages that apt knows, in this order. What is
// fetched stays in the cache, so that a version means the same kernel tomorrow;
// telling, if not nil, is told before something is fetched.
func FindKernel(ctx context.Context, name string, telling func(text string)) (*Kernel, error) {
	if !IsVersion(name) {
		return kernelFile(name)
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	if k := cached(cache, name); k != nil {
		return k, nil
	}
	if k := installed("/boot", name); k != nil {
		return k, nil
	}
	return fetch(ctx, cache, name, telling)
}

// Cache is where fetched kernels stay.
func Cache() (string, error) { return cacheFor("kernels") }

// SnapshotCache is a directory for [Machine.Snapshots].
func SnapshotCache() (string, error) { return cacheFor("snapshots") }

func cacheFor(what string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for %s: %w", what, err)
	}
	return filepath.Join(dir, "ebpf-bench-gate", what), nil
}

func kernelFile(name string) (*Kernel, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxImage {
		return nil, fmt.Errorf("kernel %s: not a bzImage", name)
	}
	return &Kernel{Name: name, Source: name, image: name}, nil
}

// cached is the newest kernel of a version in the cache.
func cached(cache, want string) *Kernel {
	entries, _ := os.ReadDir(cache)
	var best *Kernel
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		k, err := openCached(filepath.Join(cache, e.Name()))
		if err != nil || !fits(k.Release, want) {
			continue
		}
		if best == nil || newer(k.Release, best.Release) > 0 {
			best = k
		}
	}
	if best != nil {
		best.Name = want
	}
	return best
}

func openCached(dir string) (*Kernel, error) {
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	k := &Kernel{dir: dir}
	if err := json.Unmarshal(b, &k.manifest); err != nil {
		return nil, err
	}
	for name := range k.manifest.Files {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%q leads out of the cache", name)
		}
	}
	k.Release, k.Source = k.manifest.Release, k.manifest.Source
	if k.manifest.Files[bootFile] == "" {
		return nil, errors.New("no kernel")
	}
	return k, nil
}

// installed is the newest kernel of a version in /boot that may be read.
func installed(boot, want string) *Kernel {
	names, _ := filepath.Glob(filepath.Join(boot, "vmlinuz-*"))
	var best *Kernel
	for _, n := range names {
		release := strings.TrimPrefix(filepath.Base(n), "vmlinuz-")
		if !fits(release, want) || best != nil && newer(release, best.Release) <= 0 {
			continue
		}
		f, err := os.Open(n) // Ubuntu lets only root
		if err != nil {
			continue
		}
		f.Close()
		best = &Kernel{Name: want, Release: release, Source: n, image: n}
	}
	return best
}

// newer compares versions: numbers by value, all else as text.
func newer(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(len(m)-len(n), strings.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// write writes what is booted, once it is what the cache says that it is.
func (k *Kernel) write(w io.Writer) error {
	if k.dir == "" {
		image, err := os.ReadFile(k.image)
		if err == nil {
			image, err = bootable(image)
		}
		if err != nil {
			return fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		_, err = w.Write(image)
		return err
	}
	b, err := os.ReadFile(filepath.Join(k.dir, bootFile))
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != k.manifest.Files[bootFile] {
		return fmt.Errorf("kernel %s: %s is not what was fetched; remove the directory", k.Name, k.dir)
	}
	_, err = w.Write(b)
	return err
}

// sum is what names the kernel's content: the SHA-256 of what is booted or, of a
// file, of that file.
func (k *Kernel) sum() (string, error) {
	if k.dir != "" {
		return k.manifest.Files[bootFile], nil
	}
	sum, err := fileSum(k.image)
	if err != nil {
		return "", fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	return sum, nil
}

func fileSum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// save puts a kernel into the cache, whole or not at all.
func save(cache string, m manifest, files map[string][]byte) (*Kernel, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	sweep(cache)
	dir, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m.Files = map[string]string{}
	for name, b := range files {
		sum := sha256.Sum256(b)
		m.Files[name] = hex.EncodeToString(sum[:])
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(at, b, 0o644); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestFile), append(text, '\n'), 0o644); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	final := filepath.Join(cache, m.Release)
	if err := os.Rename(dir, final); err != nil && !errors.Is(err, fs.ErrExist) {
		// Another gate was faster, or what is there is damaged.
		if k, opened := openCached(final); opened == nil {
			return k, nil
		}
		return nil, err
	}
	return openCached(final)
}

const unfinished = ".new-"

// sweep removes what a killed gate left half done.
func sweep(cache string) {
	left, _ := filepath.Glob(filepath.Join(cache, unfinished+"*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

// newest sorts names by the version in them, newest first.
func newest(names []string) {
	slices.SortStableFunc(names, func(a, b string) int { return newer(b, a) })
}

// isModule tells whether a file of a package is a module that guests want.
func isModule(base string) bool {
	name, rest, _ := strings.Cut(base, ".")
	return slices.Contains(wanted, name) && (rest == "ko" || strings.HasPrefix(rest, "ko."))
}

// wanted are the modules that BPF programs may be attached by.
var wanted = []string{"veth", "sch_ingress", "cls_bpf", "act_bpf"}

// elfMagic begins every ELF file.
var elfMagic = []byte("\x7fELF")

// bootable is what is booted of a kernel: of a bzImage what is packed in it, and an
// ELF kernel (vmlinux) itself.
func bootable(image []byte) ([]byte, error) {
	if !bytes.HasPrefix(image, elfMagic) {
		return unpackImage(image)
	}
	if !hasPVH(image) {
		return nil, errors.New("an ELF file without the entry of CONFIG_PVH")
	}
	return image, nil
}
