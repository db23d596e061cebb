// Command kerneltest runs the kernel tests of the project on other kernels: make
// test-kernels. It tests whether gate does right there, never how fast.
//
// The flow, in order:
//
//  1. The tests are built static, one executable a package, and run on this host,
//     with a clang in PATH that keeps what the real one made ([keep]).
//  2. Each kernel is booted by package vm with the executables, the objects, the
//     tests' files, and a few tools of this host ([tools]). Its init is this command.
//  3. In the guest ([guestMain]) the modules are loaded, and the tests run one
//     package after the other. Their clang finds the objects that the host's made.
//  4. What the tests say is read as it comes, and summed up by kernel: what passed,
//     what was skipped and why, and what failed with all its output.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/org/ebpf-bench-gate/internal/vm"
)

// packages are those whose tests ask a kernel, and take no more than minutes on an
// emulated CPU. Others may be named.
var packages = []string{"bpf", "bpf/perfevent", "bpf/profiler", "bpf/programs", "internal/testkernel"}

// envObjects names a directory with what clang made, where the tests have run on this
// host before.
const envObjects = "GATE_CLANG_OBJECTS"

func main() {
	switch {
	case vm.Inside():
		guestMain()
	case filepath.Base(os.Args[0]) == "clang":
		os.Exit(clang(os.Args[1:]))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	kernels := flag.String("kernel", "6.12,6.1", "boot these kernels")
	pattern := flag.String("run", "", "run only the tests that match `REGEXP`")
	verbose := flag.Bool("v", false, "print all that tests print")
	flag.Parse()
	if flag.NArg() > 0 {
		packages = nil
		for _, a := range flag.Args() {
			packages = append(packages, filepath.ToSlash(filepath.Clean(a)))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "gate-kerneltest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := vm.Static(self); err != nil {
		return fmt.Errorf("%w; run it with CGO_ENABLED=0, as make test-kernels does", err)
	}
	objects := os.Getenv(envObjects)
	if objects == "" {
		objects = filepath.Join(dir, "objects")
		if err := recordObjects(ctx, self, objects, *pattern); err != nil {
			return err
		}
	}
	files, err := testFiles(ctx, dir, objects)
	if err != nil {
		return err
	}
	var beds []*bed
	for name := range strings.SplitSeq(*kernels, ",") {
		k, err := vm.FindKernel(ctx, strings.TrimSpace(name), func(text string) { fmt.Println(text) })
		if err != nil {
			return err
		}
		beds = append(beds, &bed{kernel: k, verbose: *verbose})
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for _, b := range beds {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			b.boot(ctx, self, files, *pattern)
		})
	}
	all.Wait()
	failed := 0
	for _, b := range beds {
		failed += b.tell(os.Stdout)
	}
	if failed > 0 {
		return fmt.Errorf("%d failures", failed)
	}
	return nil
}

// A plan is what a guest is to do.
type plan struct {
	Packages []string // with an executable in /tests each
	Run      string
}

// recordObjects runs the tests on this host, which compiles what they load.
func recordObjects(ctx context.Context, self, objects, pattern string) error {
	if err := os.MkdirAll(objects, 0o777); err != nil {
		return err
	}
	if err := keep(self, objects); err != nil {
		return err
	}
	args := []string{"test"}
	if pattern != "" {
		args = append(args, "-run", pattern)
	}
	args = append(args, "-count=1", "-timeout=2h") // which other tests of the kernel may hold up
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "PATH="+objects+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	fmt.Println("on this host's kernel:", strings.Join(cmd.Args, " "))
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("on this host's kernel: %w", err)
	}
	fmt.Printf("%v\n\n", time.Since(start).Round(time.Second))
	return nil
}

// testFiles builds the tests, and collects what a guest needs of the host.
func testFiles(ctx context.Context, dir, objects string) (vm.Files, error) {
	files := vm.Files{}
	for i, pkg := range packages {
		bin := filepath.Join(dir, fmt.Sprintf("%d.test", i))
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, "./"+pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
		files[testBinary(pkg)] = vm.File{Path: bin, Exec: true}
		if err := tree(files, filepath.Join(pkg, "testdata")); err != nil {
			return nil, err
		}
		files["src/"+pkg+"/.here"] = vm.File{}
	}
	if err := tree(files, "examples"); err != nil {
		return nil, err
	}
	made, err := filepath.Glob(filepath.Join(objects, "*"+kept))
	if err != nil {
		return nil, err
	}
	for _, o := range made {
		files["objects/"+filepath.Base(o)] = vm.File{Path: o}
	}
	return files, tools(files)
}

// testBinary is where a guest has the tests of a package.
func testBinary(pkg string) string { return "tests/" + strings.ReplaceAll(pkg, "/", "-") + ".test" }

// tree adds the files of a directory of the repository, if it is there.
func tree(files vm.Files, dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && d.Type().IsRegular() {
			files["src/"+filepath.ToSlash(name)] = vm.File{Path: name}
		}
		return err
	})
}

// commands are what tests run, or have shells run.
const commands = `sh bash env true false sleep cat seq xargs kill ip tc bpftool taskset dd head tail tee mount umount unshare
	nsenter setpriv setsid id chown chmod mkdir rm ls cp mv ln touch stat sort uniq wc tr cut grep sed find ps timeout date
	uname hostname mktemp ping nproc yes test expr printf readlink dirname basename echo prlimit nice`

// tools adds commands that tests run, with the libraries that they need, as far as
// this host has them.
func tools(files vm.Files) error {
	for name := range strings.FieldsSeq(commands) {
		at, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		named := "bin/" + name
		if at, err = filepath.EvalSymlinks(at); err != nil {
			return err
		}
		files[named] = vm.File{Path: at, Exec: true}
		out, err := exec.Command("ldd", at).Output() // fails for what is static
		if err != nil {
			continue
		}
		for w := range strings.FieldsSeq(string(out)) {
			if !strings.HasPrefix(w, "/") {
				continue
			}
			real, err := filepath.EvalSymlinks(w)
			if err != nil {
				return err
			}
			files[strings.TrimPrefix(w, "/")] = vm.File{Path: real, Exec: true}
		}
	}
	return nil
}

// A bed is a kernel and what the tests said on it.
type bed struct {
	kernel  *vm.Kernel
	verbose bool
	results results
	err     error
	took    time.Duration
}

func (b *bed) boot(ctx context.Context, self string, common vm.Files, pattern string) {
	start := time.Now()
	defer func() { b.took = time.Since(start) }()
	files := vm.Files{}
	for n, f := range common {
		files[n] = f
	}
	text, err := json.Marshal(plan{packages, pattern})
	if err != nil {
		b.err = err
		return
	}
	files["plan.json"] = vm.File{Data: text}
	for name, file := range b.kernel.Modules() {
		files["modules/"+name+strings.TrimPrefix(filepath.Base(file), name)] = vm.File{Path: file}
	}
	if c := b.kernel.Config(); c != "" {
		files["boot/config-"+b.kernel.Release] = vm.File{Path: c}
	}
	m := &vm.Machine{
		Kernel: b.kernel, Init: self, Files: files, MemoryMB: 2048, Stall: 3 * time.Minute,
		Output: func(p []byte) {
			if b.verbose {
				for l := range bytes.Lines(p) {
					fmt.Printf("%s: %s", b.kernel.Name, l)
				}
			}
			b.results.read(p)
		},
		Progress: func(what string) {
			if b.verbose || strings.Count(what, " ") == 1 { // a package
				fmt.Printf("%6.0fs  kernel %s: %s\n", time.Since(start).Seconds(), b.kernel.Name, what)
			}
		},
	}
	_, b.err = m.Boot(ctx)
}
