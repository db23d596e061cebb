package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
	"github.com/org/ebpf-bench-gate/internal/vm"
)

// lacking are the features that a guest need not have: tools of the host, and what no
// virtual machine has. All others it must: skipping for want of them fails there.
var lacking = []testkernel.Feature{
	testkernel.Clang, testkernel.Git, testkernel.Docker, testkernel.BPFTool, testkernel.XDPTools, testkernel.BPFTools,
	testkernel.QEMU, testkernel.PMU,
}

// guestMain is the init of a guest. It does not return.
func guestMain() {
	port, err := vm.Enter()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err = testAll(port); err != nil {
		err = port.Fail(err)
	} else {
		err = port.Result(nil)
	}
	fmt.Println(err)
	os.Exit(1)
}

func testAll(port *vm.Port) error {
	text, err := os.ReadFile("/plan.json")
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if err := os.Symlink("/init", "/bin/clang"); err != nil {
		return err
	}
	if err := loadModules(port); err != nil {
		return err
	}
	var names []string
	for _, f := range lacking {
		names = append(names, string(f))
	}
	env := []string{
		"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp", "USER=root",
		testkernel.EnvRequire + "=1", testkernel.EnvAllow + "=" + strings.Join(names, ","),
	}
	for _, pkg := range p.Packages {
		if err := port.Progress("test " + pkg); err != nil {
			return err
		}
		args := []string{"-test.v", "-test.short", "-test.timeout=2h"} // of the guest's time
		if p.Run != "" {
			args = append(args, "-test.run="+p.Run)
		}
		cmd := exec.Command("/"+testBinary(pkg), args...)
		cmd.Dir, cmd.Env = filepath.Join("/src", pkg), env
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			return err
		}
		fmt.Fprintf(port, "=== package %s\n", pkg)
		if err := forward(port, pkg, out); err != nil {
			return err
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		ending := "ok"
		if err != nil {
			ending = err.Error()
		}
		fmt.Fprintf(port, "=== ended %s: %s\n", pkg, ending)
	}
	return nil
}

// forward sends on what tests say, and also as a sign of life what begins.
func forward(port *vm.Port, pkg string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		l, err := in.ReadString('\n')
		if name, begins := strings.CutPrefix(l, "=== RUN"); begins {
			if err := port.Progress("test " + pkg + " " + strings.TrimSpace(name)); err != nil {
				return err
			}
		}
		if l != "" {
			if _, err := io.WriteString(port, l); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// loadModules loads what of the kernel is not built in, packed or not. A kernel that
// has no modules has it all built in, or the tests will say what it lacks.
func loadModules(port *vm.Port) error {
	names, err := filepath.Glob("/modules/*")
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		flags := 0
		if !strings.HasSuffix(name, ".ko") {
			flags = unix.MODULE_INIT_COMPRESSED_FILE
		}
		if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
			fmt.Fprintf(port, "=== module %s: %v\n", filepath.Base(name), err)
		}
		f.Close()
	}
	return nil
}
