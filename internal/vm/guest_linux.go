package vm

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Port is the guest's way to its host. Its methods may be called from any
// goroutine.
type Port struct {
	mu sync.Mutex
	f  *os.File
}

// Inside tells whether this process is the init of such a guest.
func Inside() bool {
	return os.Getpid() == 1 && os.Args[0] == "/init"
}

// entered is the variable that tells the second start of the init from the first.
const entered = "GATE_ENTERED"

// Enter makes of an initramfs what a Linux program expects (/proc, /sys, /dev,
// /tmp, the BPF and tracing file systems where the kernel has them), and opens the
// port. Only the init of a guest may call it.
//
// It starts the executable once more when it has mounted all that: what packages
// found out about the kernel while they were initialised, they found without /proc.
func Enter() (*Port, error) {
	if !Inside() {
		return nil, errors.New("not the init of a virtual machine of gate's")
	}
	if os.Getenv(entered) == "" {
		if err := mountAll(); err != nil {
			return nil, err
		}
		err := unix.Exec(os.Args[0], os.Args, append(os.Environ(), entered+"=1"))
		return nil, os.NewSyscallError("exec", err)
	}
	p, err := openPort()
	if err != nil {
		return nil, err
	}
	if text := os.Getenv(windowed); text != "" {
		size, err := strconv.Atoi(text)
		if err == nil {
			err = p.await(size)
		}
		if err != nil {
			return nil, p.Fail(err)
		}
	}
	return p, nil
}

func mountAll() error {
	for _, m := range []struct {
		dir, fs  string
		optional bool
	}{
		{"/proc", "proc", false}, {"/sys", "sysfs", false}, {"/dev", "devtmpfs", false}, {"/tmp", "tmpfs", false},
		{"/run", "tmpfs", false}, {"/sys/fs/bpf", "bpf", true}, {"/sys/fs/cgroup", "cgroup2", true},
		{"/sys/kernel/debug", "debugfs", true}, {"/sys/kernel/tracing", "tracefs", true}, {"/sys/kernel/security", "securityfs", true},
	} {
		err := os.MkdirAll(m.dir, 0o755)
		if err == nil {
			err = os.NewSyscallError("mount", unix.Mount(m.fs, m.dir, m.fs, 0, ""))
		}
		if err != nil && !m.optional {
			return fmt.Errorf("%s: %w", m.dir, err)
		}
	}
	return nil
}

func openPort() (*Port, error) {
	f, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	// As it is: no translation of line ends, no echo.
	fd := int(f.Fd())
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("the port: %w", err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB|unix.CBAUD) | unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("the port: %w", err)
	}
	return &Port{f: f}, nil
}

func (p *Port) send(k kind, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return writeFrame(p.f, frame{k, b})
}

// Progress tells the host what begins now: "load base". It is the sign of life by
// which the host knows that the guest does not hang.
func (p *Port) Progress(text string) error { return p.send(progress, short(text)) }

// Write tells the host what a program wrote.
func (p *Port) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), maxOutput)
		if err := p.send(output, rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// Result gives the host what the guest was started for, which ends the guest: it
// only returns where that failed.
func (p *Port) Result(b []byte) error { return p.end(result, b) }

// Fail tells the host why there is no result, which ends the guest.
func (p *Port) Fail(err error) error { return p.end(failure, short(err.Error())) }

// end sends the last frame, and waits for the host to switch off: an init that ends
// is a panic, in which what is still to be sent is lost.
func (p *Port) end(k kind, b []byte) error {
	if err := p.send(k, b); err != nil {
		return err
	}
	for {
		_ = unix.Pause()
	}
}

func short(text string) []byte {
	return []byte(strings.ToValidUTF8(text[:min(len(text), maxText)], ""))
}

// Clock checks what every number of the guest rests on: that its clock is the
// counter that the host's instructions drive.
func Clock() error {
	const file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if name := strings.TrimSpace(string(b)); name != "tsc" && name != "tsc-early" {
		return fmt.Errorf("the guest's clock is %s, and only tsc counts instructions", name)
	}
	return nil
}
