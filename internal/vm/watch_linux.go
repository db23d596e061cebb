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
	"strconv"
	"strings"
	"sync"
	"time"
)

// A guest is a machine that runs.
type guest struct {
	m       *Machine
	cmd     *exec.Cmd
	port    *os.File
	said    *bufio.Reader // through the port
	console *tail

	mu   sync.Mutex
	last string        // what it said it begins to do
	seen time.Duration // CPU time when it last said something
	at   time.Time     // when it last said something, or used a CPU
}

// watch lets the guest run until a function that talks with it has what it wants,
// and ends it.
func (g *guest) watch(ctx context.Context, talk func() ([]byte, error)) ([]byte, error) {
	defer g.port.Close()
	type answer struct {
		b   []byte
		err error
	}
	g.at = time.Now()
	said := make(chan answer, 1)
	go func() {
		b, err := talk()
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
			var u *unusable
			if errors.As(a.err, &u) {
				stop()
				return nil, a.err
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
	for {
		f, err := readFrame(g.said, most)
		if err != nil {
			return nil, err
		}
		g.alive(f)
		switch f.kind {
		case progress:
			g.m.tell(clean(f.payload))
		case output:
			if g.m.Output != nil {
				g.m.Output(f.payload)
			}
		case result:
			return f.payload, nil
		case failure:
			return nil, &Failure{clean(f.payload)}
		default:
			return nil, errNoise
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
