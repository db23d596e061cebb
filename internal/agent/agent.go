//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// An Agent is one that was started, or that was found at work. Stop it.
type Agent struct {
	who   string // in words
	spec  bench.Agent
	p     *process  // nil: it was at work already
	net   *os.File  // its network namespace; nil: the host's
	own   *os.File  // the same, where nobody else closes it
	last  uint32    // the last program before it was started
	found []Program // when it was ready
}

// A Program is what the agent has in the kernel under one name.
type Program struct {
	Name string // in BTF; without BTF up to 15 characters
	Type string // as bpftool names it
	// IDs are usually one. What is of one name cannot be told apart, so it is
	// counted together.
	IDs []uint32
	// Uncounted tells that the kernel counts no runs of it, since it replaces a
	// function of another program.
	Uncounted bool
}

// Where says where an agent is started.
type Where struct {
	Dir string   // its working directory
	Net *os.File // its network namespace, which stays the caller's; nil: gate's own
	// Alone gives it a network namespace of its own, in which there is only the
	// loopback interface.
	Alone bool
	Env   []string // KEY=VALUE, beside those of the config
}

// An Error is what went wrong with an agent, with the end of what it said.
type Error struct {
	Who    string // "agent NAME", "the loader of NAME"
	Err    error
	Said   string // lines, each indented; may be empty
	Advice string
}

func (e *Error) Error() string {
	said := e.Said
	if said != "" {
		said = "; it said:" + said
	}
	return fmt.Sprintf("%s: %v%s", e.Who, e.Err, said)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint is what to do about the error.
func (e *Error) Hint() string { return e.Advice }

// saidLines is how much of an agent's output an error shows.
const saidLines = 15

func (a *Agent) fail(err error, advice string) error {
	e := &Error{Who: a.who, Err: err, Advice: advice}
	if a.p != nil {
		e.Said = a.p.out.lines(saidLines)
	}
	return e
}

// inherited are the variables that an agent gets of gate's own environment. All
// others, tokens among them, are not root's code's business.
var inherited = []string{"PATH", "LANG", "LC_ALL", "TZ"}

// environment is what an agent finds beside GATE_TMP, HOME and TMPDIR, which are a
// directory of its own.
func environment(more ...[]string) []string {
	env := []string{"TERM=dumb", "USER=root", "LOGNAME=root"}
	for _, key := range inherited {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	return append(env, slices.Concat(more...)...)
}

// Start starts an agent, or finds the one that runs already, and waits until it is
// ready. It needs root. The error is an [Error], or the context's.
func Start(ctx context.Context, spec bench.Agent, at Where) (*Agent, error) {
	return start(ctx, "agent "+spec.Name, spec, at)
}

func start(ctx context.Context, who string, spec bench.Agent, at Where) (*Agent, error) {
	a := &Agent{who: who, spec: spec, net: at.Net}
	var err error
	if spec.Run != "" {
		if a.last, err = programs.Last(); err != nil {
			return nil, err
		}
		a.p, err = launch(startOrder{Command: spec.Run, Dir: at.Dir, Env: environment(at.Env, spec.Env), Alone: at.Alone}, at.Net)
		if err != nil {
			return nil, a.fail(err, "")
		}
		if at.Alone {
			if a.net, err = os.Open(a.p.namespace()); err != nil {
				return nil, errors.Join(err, a.discard())
			}
			a.own = a.net
		}
	}
	if err := a.ready(ctx); err != nil {
		_ = a.discard()
		return nil, err
	}
	return a, nil
}

// Kill ends the agent without asking it.
func (a *Agent) Kill() error { return a.discard() }

// discard ends what nobody will stop.
func (a *Agent) discard() error {
	_, err := a.end(unix.SIGKILL, 0)
	return err
}

// Programs are those that the config names, or, where it names none, all that were
// found when the agent was ready; by name. Others are found ones that nobody named.
func (a *Agent) Programs() (programs, others []Program) {
	if len(a.spec.Programs) == 0 {
		return a.found, nil
	}
	for _, p := range a.found {
		if slices.ContainsFunc(a.spec.Programs, p.is) {
			programs = append(programs, p)
		} else {
			others = append(others, p)
		}
	}
	return programs, others
}

// ready waits until all that the config asks for holds.
func (a *Agent) ready(ctx context.Context) error {
	stable, within := a.spec.Ready.Stable, a.spec.Ready.Within
	if stable == 0 {
		stable = bench.DefaultStable
	}
	if within == 0 {
		within = bench.DefaultReady
	}
	if a.p == nil {
		stable = 0 // nothing is about to come
	}
	waits, err := a.conditions()
	if err != nil {
		return err
	}
	const poll = 20 * time.Millisecond
	end := time.Now().Add(within)
	since, ids, most := time.Now(), "", 0
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		// First, so that what is found after it was looked for is of a process
		// that was there.
		over, err := a.alive()
		if err != nil {
			return err
		}
		l, err := a.look()
		if err != nil {
			return a.fail(err, "")
		}
		now := time.Now()
		// An agent that looks at its maps again and again is ready all the same.
		if l.ids != ids || l.descriptors > most {
			ids, most, since = l.ids, max(most, l.descriptors), now
		}
		for len(waits) > 0 && waits[0].holds() {
			waits, since = waits[1:], now
		}
		still := over || time.Since(since) >= stable // what has ended does nothing more
		switch {
		case len(waits) == 0 && len(l.missing) == 0 && len(l.programs) > 0 && still:
			a.found = l.programs
			return nil
		case still && (over || a.p == nil), now.After(end):
			return a.unready(l, waits, over, within)
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
}

// alive tells whether the agent's processes are all over, which is none of the
// errors: a loader leaves when its programs are attached.
func (a *Agent) alive() (over bool, err error) {
	if a.p == nil {
		return false, nil
	}
	exited, alone, err := a.p.state()
	if err != nil {
		return true, a.fail(err, "")
	}
	if exited != nil && *exited != 0 {
		a.drain()
		advice := ""
		if exited.notFound() {
			advice = "is it built, and in PATH? Agents run in the config's directory of their own revision's tree"
		}
		return true, a.fail(fmt.Errorf("it ended before it was ready: %s", exited), advice)
	}
	return exited != nil && alone, nil
}

// drain waits for the last words of what has ended.
func (a *Agent) drain() {
	select {
	case <-a.p.out.closed:
	case <-time.After(200 * time.Millisecond): // somebody else has the pipe
	}
}

// unready says why the agent is not ready, and what was found of it.
func (a *Agent) unready(l *look, waits []condition, over bool, within time.Duration) error {
	var b strings.Builder
	advice := ""
	switch {
	case a.p == nil:
		b.WriteString("not found at work")
	case over:
		a.drain()
		b.WriteString("it ended at once (exit status 0)")
		if len(l.programs) == 0 {
			b.WriteString(" and left no program in the kernel")
			advice = "what must go on in the background has to stay a process, pin its programs, or attach them to an interface of its namespace"
		}
	default:
		fmt.Fprintf(&b, "not ready within %v", within)
		advice = "ready: {within: …} gives it longer"
	}
	if len(waits) > 0 {
		fmt.Fprintf(&b, ": %s", waits[0].lacks)
	}
	if len(l.missing) > 0 {
		fmt.Fprintf(&b, "; no program %s", strings.Join(l.missing, ", "))
	}
	if a.p == nil || !over || len(l.programs) > 0 {
		fmt.Fprintf(&b, "; found %s", foundNames(l.programs))
	}
	if a.p == nil {
		advice = "gate top --once shows all programs that are loaded, and who holds them"
	} else if len(l.programs) == 0 && len(waits) == 0 && !over {
		advice = "what its processes do not hold is found by find: {names: …}, {pins: …}, {cgroups: …} or {interfaces: …}"
	}
	return a.fail(errors.New(b.String()), advice)
}

// foundNames names programs.
func foundNames(programs []Program) string {
	if len(programs) == 0 {
		return "none"
	}
	const most = 30
	var names []string
	for i, p := range programs {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(programs)-i))
			break
		}
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// A condition is something else than programs that makes an agent ready.
type condition struct {
	holds func() bool
	lacks string
}

func (a *Agent) conditions() ([]condition, error) {
	var all []condition
	if a.p == nil {
		return nil, nil
	}
	if expr := a.spec.Ready.Log; expr != "" {
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, a.fail(err, "")
		}
		a.p.out.expect(re)
		all = append(all, condition{a.p.out.has, fmt.Sprintf("no line of its output matches %q", expr)})
	}
	if port := a.spec.Ready.Port; port != 0 {
		all = append(all, condition{func() bool { return listens(a.p.members(), port) }, fmt.Sprintf("nothing listens on port %d", port)})
	}
	if command := a.spec.Ready.Command; command != "" {
		next := time.Now()
		all = append(all, condition{func() bool {
			// Not as often as one looks: it may be a program of its own.
			if time.Now().Before(next) {
				return false
			}
			const most = 5 * time.Second
			w, err := a.p.check(command, most)
			next = time.Now().Add(100 * time.Millisecond)
			return err == nil && w == 0
		}, fmt.Sprintf("%q does not end with 0", command)})
	}
	return all, nil
}

// Check tells whether the agent has gone on since it was ready; its programs may
// else have been measured while nobody read what they wrote.
func (a *Agent) Check() error {
	if a.p == nil {
		return nil
	}
	exited, _, err := a.p.state()
	if err != nil {
		return a.fail(err, "")
	}
	if exited != nil && *exited != 0 {
		a.drain()
		return a.fail(fmt.Errorf("it ended while it was measured: %s", exited), "")
	}
	return nil
}

// Late are programs that have come since the agent was ready: new ones, and those of a
// name that it had then, beside or in the place of what is measured.
func (a *Agent) Late() ([]Program, error) {
	l, err := a.look()
	if err != nil {
		return nil, a.fail(err, "")
	}
	var then []uint32
	for _, f := range a.found {
		then = append(then, f.IDs...)
	}
	var late []Program
	for _, p := range l.programs {
		if p.IDs = slices.DeleteFunc(p.IDs, func(id uint32) bool { return slices.Contains(then, id) }); len(p.IDs) > 0 {
			late = append(late, p)
		}
	}
	return late, nil
}

// Stop ends the agent, and all that it has started, which is over when Stop returns.
// Warning tells that it had to be killed. An agent that ran already goes on.
func (a *Agent) Stop() (warning string, err error) {
	sig := unix.SignalNum(a.spec.Stop.Signal)
	if sig == 0 {
		sig = unix.SIGTERM
	}
	within := a.spec.Stop.Within
	if within == 0 {
		within = bench.DefaultStop
	}
	r, err := a.end(sig, within)
	if err != nil {
		return "", err
	}
	if left := a.leftBehind(); left != "" {
		return "", a.fail(fmt.Errorf("it has ended, and %s is still in the kernel: what keeps it would meet the next one", left),
			"pins outside of its own /sys/fs/bpf, and what it attaches to the host's control groups or interfaces, it has to take away itself")
	}
	if r.Killed > 0 && sig != unix.SIGKILL {
		were := "were"
		if r.Killed == 1 {
			were = "was"
		}
		return fmt.Sprintf("%s: %d of its processes had not ended %v after %s, and %s killed", a.who, r.Killed, within, unix.SignalName(sig), were), nil
	}
	return "", nil
}

// leftBehind names a program that outlives the agent; "" if there is none. The kernel
// frees programs some time after their last holder is gone.
func (a *Agent) leftBehind() string {
	if a.p == nil {
		return ""
	}
	var ids []uint32
	for _, p := range a.found {
		ids = append(ids, p.IDs...)
	}
	const patience = 2 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left, err := programs.Describe(ids)
		if err != nil || len(left) == 0 {
			return ""
		}
		if time.Now().After(end) {
			return nameOf(left[0])
		}
	}
}

func (a *Agent) end(sig unix.Signal, within time.Duration) (stopReport, error) {
	if a.p == nil {
		return stopReport{}, nil
	}
	if a.own != nil {
		defer a.own.Close()
	}
	r, err := a.p.stop(sig, within)
	if err != nil {
		return r, a.fail(err, "")
	}
	if a.net != nil && a.own == nil {
		// The namespace goes on, and with it what hangs there without a link.
		if err := programs.ClearInterfaces(a.net); err != nil {
			return r, a.fail(err, "")
		}
	}
	if r.Left > 0 {
		return r, a.fail(fmt.Errorf("%d of its processes are not ended by SIGKILL", r.Left), "they wait for a device or a file system: see ps -o pid,stat,wchan,args")
	}
	return r, nil
}
