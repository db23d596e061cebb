package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	// Progress, if not nil, is told what the guest begins to do, and Output what
	// programs in it write. Both are called from one goroutine.
	Progress func(text string)
	Output   func(b []byte)
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

// args are QEMU's arguments. Kernel, initramfs and the port are descriptors, since
// nothing of a run shall have a name on the host.
func (m *Machine) args(kernel, initrd, port int) []string {
	memory := m.MemoryMB
	if memory == 0 {
		memory = DefaultMemory
	}
	line := slices.Clone(commandLine)
	if m.Verbose != nil {
		line = append(line, "loglevel=7")
	} else {
		line = append(line, "quiet")
	}
	line = append(line, m.Env...)
	if len(m.Args) > 0 {
		line = append(append(line, "--"), m.Args...)
	}
	fd := func(n int) string { return "/proc/self/fd/" + strconv.Itoa(n) }
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-name", "ebpf-bench-gate",
		// Without ACPI there is no APIC, whose set-up takes a second of polling.
		"-machine", "microvm,acpi=off,rtc=on,x-option-roms=on", "-rtc", "base=2026-01-01T00:00:00,clock=vm",
		"-cpu", cpu, "-smp", "1", "-m", strconv.Itoa(memory),
		"-accel", "tcg", "-icount", "shift=0,sleep=off", "-seed", "1",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", "file,id=port,path=" + fd(port), "-device", "isa-serial,index=1,chardev=port",
		"-kernel", fd(kernel), "-initrd", fd(initrd), "-append", strings.Join(line, " "),
	}
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
	kernel, initrd, err := m.images()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	defer initrd.Close()
	port, portW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer port.Close()
	const first = 3 // ExtraFiles begin there
	cmd := exec.Command(bin, m.args(first, first+1, first+2)...)
	cmd.ExtraFiles = []*os.File{kernel, initrd, portW}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	console := &tail{also: m.Verbose}
	cmd.Stdout, cmd.Stderr = console, console
	err = cmd.Start()
	portW.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	g := &guest{m: m, cmd: cmd, port: port, console: console}
	return g.watch(ctx)
}

// images are what the machine starts with.
func (m *Machine) images() (kernel, initrd *os.File, err error) {
	files := Files{"init": {Path: m.Init, Exec: true, loaded: true}}
	for n, f := range m.Files {
		files[n] = f
	}
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

// A guest is a machine that runs.
type guest struct {
	m       *Machine
	cmd     *exec.Cmd
	port    *os.File
	console *tail

	mu   sync.Mutex
	last string        // what it said it begins to do
	seen time.Duration // CPU time when it last said something
	at   time.Time     // when it last said something, or used a CPU
}

// watch reads what the guest says until it has said all, and ends it.
func (g *guest) watch(ctx context.Context) ([]byte, error) {
	type answer struct {
		b   []byte
		err error
	}
	g.at = time.Now()
	said := make(chan answer, 1)
	go func() {
		b, err := g.listen()
		said <- answer{b, err}
	}()
	ended := make(chan struct{})
	var how error // set when it has ended
	go func() {
		defer close(ended)
		how = g.cmd.Wait()
	}()
	stop := func() {
		_ = g.cmd.Process.Kill()
		<-ended
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case a := <-said:
			if a.err == nil {
				stop()
				return a.b, nil
			}
			var f *Failure
			if errors.As(a.err, &f) || !errors.Is(a.err, io.EOF) && !errors.Is(a.err, io.ErrUnexpectedEOF) {
				stop()
				return nil, g.crash(a.err.Error(), a.err)
			}
			// The port is closed: QEMU ends, and its console says why.
			<-ended
			return nil, g.crash(g.reason(how), nil)
		case <-ctx.Done():
			stop()
			return nil, context.Cause(ctx)
		case <-tick.C:
			if why := g.stalled(); why != "" {
				stop()
				return nil, g.crash(why, nil)
			}
		}
	}
}

// listen reads frames until the result.
func (g *guest) listen() ([]byte, error) {
	most := g.m.MaxResult
	if most == 0 {
		most = DefaultResult
	}
	r := bufio.NewReaderSize(g.port, 1<<16)
	for {
		f, err := readFrame(r, most)
		if err != nil {
			return nil, err
		}
		g.alive(f)
		switch f.kind {
		case progress:
			if g.m.Progress != nil {
				g.m.Progress(clean(f.payload))
			}
		case output:
			if g.m.Output != nil {
				g.m.Output(f.payload)
			}
		case result:
			return f.payload, nil
		case failure:
			return nil, &Failure{clean(f.payload)}
		}
	}
}

func (g *guest) alive(f frame) {
	used := g.used()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.at = used, time.Now()
	if f.kind == progress {
		g.last = clean(f.payload)
	}
}

// stalled says that the guest makes no progress, or is empty.
func (g *guest) stalled() string {
	most := g.m.Stall
	if most == 0 {
		most = DefaultStall
	}
	used := g.used()
	g.mu.Lock()
	defer g.mu.Unlock()
	doing := "it booted"
	if g.last != "" {
		doing = "it began to " + g.last
	}
	switch {
	case used-g.seen > most:
		return fmt.Sprintf("the guest hung: no sign of it in %v of CPU time since %s", most, doing)
	case time.Since(g.at) > idleStall && used-g.seen < time.Second:
		return fmt.Sprintf("the guest hung: neither a sign of it nor CPU time used in %v since %s", idleStall, doing)
	}
	return ""
}

// used is the CPU time that QEMU has used.
func (g *guest) used() time.Duration {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(g.cmd.Process.Pid), "stat"))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(after)
	const utime, stime, perSecond = 11, 12, 100 // USER_HZ
	if len(f) <= stime {
		return 0
	}
	u, _ := strconv.ParseInt(f[utime], 10, 64)
	s, _ := strconv.ParseInt(f[stime], 10, 64)
	return time.Duration(u+s) * time.Second / perSecond
}

// reason says why QEMU ended by itself.
func (g *guest) reason(err error) string {
	for _, l := range g.console.lines() {
		if at := strings.Index(l, panicked); at >= 0 {
			return "the guest's kernel panicked: " + strings.TrimPrefix(l[at:], panicked+" - ")
		}
	}
	if err != nil {
		return "QEMU ended: " + err.Error()
	}
	return "the guest ended without a result"
}

func (g *guest) crash(what string, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &Crash{Kernel: g.m.Kernel.Name, What: what, Doing: g.last, Console: g.console.lines(), err: err}
}

// A Failure is what the guest itself gave as the reason that there is no result.
type Failure struct{ text string }

func (f *Failure) Error() string { return f.text }

// A Crash is a guest that ended, or was ended, without a result.
type Crash struct {
	Kernel string
	What   string
	// Doing is what it was doing, by its own words; may be empty.
	Doing string
	// Console are the last lines of its console, cleaned.
	Console []string
	err     error
}

func (c *Crash) Error() string { return fmt.Sprintf("kernel %s: %s", c.Kernel, c.What) }

// Unwrap is the guest's own [*Failure], if there is one.
func (c *Crash) Unwrap() error { return c.err }
