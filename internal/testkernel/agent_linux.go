package testkernel

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// Agent is a tracing agent as others write them, which tests start: it loads
// programs, attaches them to every system call, and says so. Its flags are the ways
// in which agents misbehave. It returns an exit code.
//
//	agent [flags] NAME[=INSTRUCTIONS]...
func Agent() int {
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	late := flags.Duration("late", 0, "wait before the last program is loaded")
	deaf := flags.Bool("deaf", false, "ignore SIGTERM")
	crash := flags.Duration("crash", 0, "exit with code 3 after this time")
	daemon := flags.Bool("daemon", false, "go on in a child in a session of its own, and exit")
	quiet := flags.Bool("quiet", false, "do not say when it is ready")
	_ = flags.Parse(os.Args[1:])
	if *daemon {
		// As this one was started, whatever makes an agent of its binary.
		line, err := os.ReadFile("/proc/self/cmdline")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		args := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), func(a string) bool { return a == "-daemon" })
		child := &exec.Cmd{Path: "/proc/self/exe", Args: args}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	for i, arg := range flags.Args() {
		if i == flags.NArg()-1 {
			time.Sleep(*late)
		}
		if err := trace(arg); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			return 1
		}
	}
	if !*quiet {
		fmt.Println("agent: ready")
	}
	var end <-chan time.Time
	if *crash > 0 {
		end = time.After(*crash)
	}
	for {
		select {
		case <-end:
			fmt.Fprintln(os.Stderr, "agent: \x1b[31mout of luck\x1b[0m")
			return 3
		case <-stop:
			if !*deaf {
				return 0
			}
		}
	}
}

// held are the links of the agent, which the collector would otherwise close.
var held []link.Link

// trace loads a program of so many instructions (by default 1), and attaches it.
func trace(arg string) error {
	name, count, _ := strings.Cut(arg, "=")
	n := 1
	if count != "" {
		if _, err := fmt.Sscan(count, &n); err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
	}
	fn := &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
	}}
	code := asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 1).WithSymbol(name), fn)}
	for range n {
		code = append(code, asm.Mul.Imm(asm.R0, 3))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: append(code, asm.Mov.Imm(asm.R0, 0), asm.Return()),
	})
	if err != nil {
		return err
	}
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: p})
	held = append(held, l)
	return err
}
