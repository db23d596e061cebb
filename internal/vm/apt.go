package vm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// A NotFound is a version that no place has a kernel of.
type NotFound struct{ Version, Reason string }

func (e *NotFound) Error() string {
	return fmt.Sprintf("no kernel %s: %s", e.Version, e.Reason)
}

// Hint says what to do instead.
func (e *NotFound) Hint() string {
	return "name a bzImage: --kernel /boot/vmlinuz-…; on Debian and Ubuntu, apt-get update lets apt know its packages"
}

// flavours are the kinds of kernel packages that fit the machine, best first: small
// ones for virtual machines, then the ordinary ones.
var flavours = []string{"cloud-amd64", "virtual", "kvm", "generic", "amd64"}

var packageName = regexp.MustCompile(`^linux-image-(unsigned-)?([0-9]+\.[0-9]+[0-9a-z.+~-]*?)-(cloud-amd64|virtual|kvm|generic|amd64)(-unsigned)?$`)

// fetch fetches the newest package of a version. That the package is what the
// distribution signed is apt's to check.
func fetch(ctx context.Context, cache, want string, telling func(string)) (*Kernel, error) {
	for _, tool := range []string{"apt-cache", "apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &NotFound{want, "it is neither in " + cache + " nor in /boot, and there is no apt to fetch it with"}
		}
	}
	out, err := run(ctx, "", "apt-cache", "--names-only", "search", `^linux-image-(unsigned-)?`+regexp.QuoteMeta(want)+`[^0-9]`)
	if err != nil {
		return nil, err
	}
	name := choose(out, want)
	if name == "" {
		return nil, &NotFound{want, "apt knows no package of it"}
	}
	if telling != nil {
		telling("fetching " + name)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := run(ctx, dir, "apt-get", "--quiet=2", "-o", "APT::Sandbox::User=", "download", name); err != nil {
		return nil, fmt.Errorf("fetch %s: %w", name, err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(found) != 1 {
		return nil, fmt.Errorf("fetch %s: apt-get left no package", name)
	}
	files, release, err := unpackPackage(ctx, found[0])
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	k, err := save(cache, manifest{Release: release, Source: strings.TrimSuffix(filepath.Base(found[0]), ".deb")}, files)
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	k.Name = want
	return k, nil
}

// choose is the best of the packages that apt-cache lists: the newest of the best
// flavour.
func choose(list, want string) string {
	byFlavour := map[string][]string{}
	for l := range strings.Lines(list) {
		name, _, _ := strings.Cut(strings.TrimSpace(l), " ")
		m := packageName.FindStringSubmatch(name)
		if m == nil || !fits(m[2], want) || strings.HasSuffix(m[2], "-rt") {
			continue
		}
		byFlavour[m[3]] = append(byFlavour[m[3]], name)
	}
	for _, f := range flavours {
		if names := byFlavour[f]; len(names) > 0 {
			newest(names)
			return names[0]
		}
	}
	return ""
}

// unpackPackage reads what is wanted of a package: the kernel, ready to boot, its
// configuration and a few modules. Names in the package become none on the host.
func unpackPackage(ctx context.Context, deb string) (files map[string][]byte, release string, err error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var msg bytes.Buffer
	cmd.Stderr = &msg
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	files, release, err = readPackage(tar.NewReader(stdout))
	_, _ = io.Copy(io.Discard, stdout)
	if wait := cmd.Wait(); err == nil && wait != nil {
		err = fmt.Errorf("dpkg-deb: %w: %s", wait, clean(msg.Bytes()))
	}
	if err == nil && files[bootFile] == nil {
		err = errors.New("there is no kernel in it")
	}
	return files, release, err
}

func readPackage(t *tar.Reader) (files map[string][]byte, release string, err error) {
	files = map[string][]byte{}
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, release, nil
		}
		if err != nil {
			return nil, "", err
		}
		dir, base := path.Split(path.Clean(h.Name))
		as := ""
		switch {
		case h.Typeflag != tar.TypeReg:
		case dir == "boot/" && strings.HasPrefix(base, "vmlinuz-"):
			as, release = bootFile, strings.TrimPrefix(base, "vmlinuz-")
			if !IsVersion(release) {
				return nil, "", fmt.Errorf("%q is no release of a kernel", release)
			}
		case dir == "boot/" && strings.HasPrefix(base, "config-"):
			as = "config"
		case isModule(base):
			as = "modules/" + base
		}
		if as == "" {
			continue
		}
		if h.Size > maxImage {
			return nil, "", fmt.Errorf("%s has %d MB", as, h.Size>>20)
		}
		b, err := io.ReadAll(io.LimitReader(t, maxImage))
		if err == nil && as == bootFile {
			b, err = bootable(b)
		}
		if err != nil {
			return nil, "", err
		}
		files[as] = b
	}
}

// run runs a command of the distribution and returns what it prints.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("%s: %w: %s", name, err, clean(msg.Bytes()))
	}
	return out.String(), nil
}
