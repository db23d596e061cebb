package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// A Machine is a virtual machine with one CPU that counts instructions. It needs a
// Kernel and an Init.
type Machine struct {
	Kernel *Kernel
	// Init is the static executable that is the guest's first process, and Args
	// are its arguments.
	Init string
	Args []string
	// Env are variables of its environment, without spaces. (The kernel hands on
	// what of its command line it does not know.)
	Env []string
	// Files are what else the guest has.
	Files Files
	// MemoryMB is its memory in MiB; 0 is [DefaultMemory].
	MemoryMB int
	// MaxResult is the most bytes that the result may have; 0 is [DefaultResult].
	MaxResult int
	// Stall is how long the guest may go without a sign of progress, in time of
	// the CPUs that emulate it: a busy host gives it longer. 0 is [DefaultStall].
	Stall time.Duration
	// Progress, if not nil, is told what the machine and then its guest begin to do,
	// and Output what programs in it write. Both are called by one goroutine at a time.
	Progress func(text string)
	Output   func(b []byte)
	// Snapshots is a directory of machines that have booted, for the next run to begin
	// with; it is made where there is none. Empty: every run boots.
	Snapshots string
	// Verbose has the kernel print its log to the console, which slows it.
	Verbose io.Writer
}

// Defaults of a [Machine].
const (
	DefaultMemory = 1024
	DefaultResult = 8 << 20
	DefaultStall  = 2 * time.Minute
)

// idleStall is how long a guest may do nothing at all, neither use a CPU nor say
// anything: QEMU itself hangs, or was stopped.
const idleStall = 5 * time.Minute

// commandLine is what every guest's kernel is told. A panic ends the machine.
//
// The clock is the time-stamp counter, which advances by one with every
// instruction; its frequency is told, since what the kernel would measure of it is
// 7 millionths too low.
//
// What is left out takes half of all instructions of the boot, and has no part in
// eBPF: self-tests of ciphers, the jitter that random numbers are made of (there is
// none in such a machine), the certificates of modules, and numbers in the place of
// names in the texts of tracefs that describe events.
var commandLine = []string{
	"console=ttyS0", "panic=-1", "reboot=t", "clocksource=tsc", "tsc=reliable", "tsc_early_khz=1000000",
	"rcupdate.rcu_expedited=1", "nowatchdog", "audit=0",
	"random.trust_cpu=on", "cryptomgr.notests=1", "initcall_blacklist=load_system_certificate_list,jent_mod_init,trace_eval_init",
}

// CPU is the model that the guest sees.
const CPU = "qemu64"

// cpu adds the features of every x86-64 of the last fifteen years, by name, so that
// a later QEMU gives the same numbers.
//
// Note: not "max". It has erms and fsrm, for which kernels copy memory by "rep
// movsb"; each byte of that is an instruction to the machine.
const cpu = CPU + ",+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand,+rdtscp"

// A process is a QEMU to be: its arguments, and the descriptors that it is handed,
// since nothing of a run shall have a name on the host.
type process struct {
	args  []string
	files []*os.File
	given []*os.File // those that are the process's alone
}

// fd hands a file to the process, and returns its number there.
func (p *process) fd(f *os.File) string {
	const first = 3 // where ExtraFiles begin
	p.files = append(p.files, f)
	return strconv.Itoa(first + len(p.files) - 1)
}

// give is fd of a file that is closed here once the process has it.
func (p *process) give(f *os.File) string {
	p.given = append(p.given, f)
	return p.fd(f)
}

func (p *process) path(f *os.File) string { return "/proc/self/fd/" + p.fd(f) }

func (p *process) add(args ...string) { p.args = append(p.args, args...) }

func (m *Machine) memory() int {
	if m.MemoryMB == 0 {
		return DefaultMemory
	}
	return m.MemoryMB
}

// hardware are the arguments that say what the machine is.
func (m *Machine) hardware() []string {
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-name", "ebpf-bench-gate",
		"-rtc", "base=2026-01-01T00:00:00,clock=vm",
		"-cpu", cpu, "-smp", "1", "-m", strconv.Itoa(m.memory()),
		"-accel", "tcg", "-icount", "shift=0,sleep=off", "-seed", "1",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
	}
}

// board is the machine's type. Without ACPI there is no APIC, whose set-up takes a
// second of polling.
const board = "microvm,acpi=off,rtc=on,x-option-roms=on"

// commandLine is what the guest's kernel is told, with more for its init.
func (m *Machine) commandLine(env ...string) string {
	line := slices.Clone(commandLine)
	if m.Verbose != nil {
		line = append(line, "loglevel=7")
	} else {
		line = append(line, "quiet")
	}
	line = append(append(line, m.Env...), env...)
	if len(m.Args) > 0 {
		line = append(append(line, "--"), m.Args...)
	}
	return strings.Join(line, " ")
}

// boots are the arguments by which the machine boots.
func (p *process) boots(kernel, initrd *os.File, commandLine string) {
	p.add("-kernel", p.path(kernel), "-initrd", p.path(initrd), "-append", commandLine)
}

// Boot boots the machine, and returns the result that its guest sends before it
// ends. The error of a guest without one is a [*Crash]; a cancelled context ends
// the machine, and so does the end of this process, however it comes.
func (m *Machine) Boot(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := Static(m.Init); err != nil {
		return nil, err
	}
	bin, err := exec.LookPath(QEMU)
	if err != nil {
		return nil, ErrNoQEMU
	}
	if m.Snapshots != "" && m.Verbose == nil && m.memory() <= maxStored {
		b, err := m.restored(ctx, bin)
		var u *unusable
		if !errors.As(err, &u) {
			return b, err
		}
		m.tell(u.Error())
	}
	kernel, initrd, err := m.images(m.Files)
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	defer initrd.Close()
	p := &process{args: m.hardware()}
	p.add("-machine", board)
	p.boots(kernel, initrd, m.commandLine())
	m.tell("boot")
	g, err := m.start(bin, p)
	if err != nil {
		return nil, err
	}
	return g.watch(ctx, g.listen)
}

func (m *Machine) tell(text string) {
	if m.Progress != nil {
		m.Progress(text)
	}
}

// start starts QEMU, with a port.
func (m *Machine) start(bin string, p *process) (*guest, error) {
	defer func() {
		for _, f := range p.given {
			f.Close()
		}
	}()
	port, portW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer portW.Close()
	p.add("-chardev", "file,id=port,path="+p.path(portW), "-device", "isa-serial,index=1,chardev=port")
	cmd := exec.Command(bin, p.args...)
	cmd.ExtraFiles = p.files
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	console := &tail{also: m.Verbose}
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Start(); err != nil {
		port.Close()
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	return &guest{m: m, cmd: cmd, port: port, said: bufio.NewReaderSize(port, 1<<16), console: console}, nil
}

// images are what the machine starts with.
func (m *Machine) images(more Files) (kernel, initrd *os.File, err error) {
	files := Files{"init": {Path: m.Init, Exec: true, loaded: true}}
	maps.Copy(files, more)
	var both errgroup.Group // the kernel is hashed meanwhile
	both.Go(func() (err error) {
		kernel, err = inMemory("kernel", m.Kernel.write)
		return err
	})
	initrd, err = inMemory("initramfs", files.write)
	if err = errors.Join(err, both.Wait()); err != nil {
		if kernel != nil {
			kernel.Close()
		}
		if initrd != nil {
			initrd.Close()
		}
		return nil, nil, err
	}
	return kernel, initrd, nil
}

// QEMU is the emulator, as it is found in PATH.
const QEMU = "qemu-system-x86_64"

// ErrNoQEMU is that the emulator is not installed.
var ErrNoQEMU error = noQEMU{}

type noQEMU struct{}

func (noQEMU) Error() string { return QEMU + " is not installed" }
func (noQEMU) Hint() string  { return "on Debian and Ubuntu: apt-get install qemu-system-x86" }

var qemuVersion = regexp.MustCompile(`version ([0-9]+\.[0-9]+)`)

// Version is QEMU's: "7.2". A number of instructions may depend on it, since what
// counts as one is QEMU's to say.
func Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, QEMU, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", QEMU, err)
	}
	m := qemuVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s --version says something else: %s", QEMU, clean(out))
	}
	return string(m[1]), nil
}

// inMemory is a file that has no name.
func inMemory(name string, write func(io.Writer) error) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(w), w.Flush()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
