package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// atWork are the flags of gate run that are about programs which somebody else has
// loaded and attached already.
type atWork struct {
	pids     []int
	attachTo []string
	work     string
	duration time.Duration
}

func (a *atWork) define(fl *pflag.FlagSet) {
	fl.IntSliceVar(&a.pids, "pid", nil, "measure the programs of process `PID` and those below it, as they run")
	fl.StringSliceVar(&a.attachTo, "attach-to", nil, "measure the programs on `WHERE`: an interface, a control group, or a pin")
	fl.StringVar(&a.work, "work", "", "with --pid or --attach-to: do `COMMAND` in each round")
	fl.DurationVar(&a.duration, "duration", 0, "with --pid or --attach-to: watch for so long in each round (default 1s)")
}

func (a *atWork) asked() bool { return len(a.pids)+len(a.attachTo) > 0 }

func (a *atWork) validate(f *runFlags, args []string) error {
	switch {
	case !a.asked() && (a.work != "" || a.duration != 0):
		return usage("--work and --duration say what goes on while the programs of --pid or --attach-to are measured")
	case !a.asked():
		return nil
	case len(args) > 0:
		return usage("%s: --pid and --attach-to measure what is loaded already", args[0])
	case f.base != "":
		return usage("--base: what runs already has no other side to be compared with; it is judged by what is stored of it")
	case len(f.kernels) > 0:
		return usage("--kernel: what runs already runs on this one")
	case a.work != "" && a.duration != 0:
		return usage("--work and --duration exclude each other")
	case f.config != "" && (a.work != "" || a.duration != 0):
		return usage("--config says what is at work: leave out --work and --duration")
	case a.duration < 0:
		return usage("--duration %v: expected a time, such as 2s", a.duration)
	}
	return nil
}

// suites is the suite of what runs already: that of the config with its agent, which
// is then not started, or one of its own.
func (a *atWork) suites(file string) ([]*workspace, error) {
	find, who, err := a.find()
	if err != nil {
		return nil, err
	}
	w := &workspace{found: strings.Join(who, ", ")}
	if file == "" {
		w.suite = a.suite(find, who[0])
		return []*workspace{w}, nil
	}
	if w.suite, err = findSuite(file, nil); err != nil {
		return nil, err
	}
	if n := len(w.suite.Agents); n != 1 {
		return nil, usage("--config %s has %d agents, and which of them runs already is not said", file, n)
	}
	agent := &w.suite.Agents[0]
	agent.Run, agent.Find = "", find
	w.suite.Programs = nil
	w.suite.Benchmarks = slices.DeleteFunc(w.suite.Benchmarks, func(b bench.Benchmark) bool { return b.Agent != agent })
	for _, b := range w.suite.Benchmarks {
		if b.Net != nil || b.Work.Packets {
			return nil, &exitError{code: exitUsage, err: &bench.Diagnostic{Pos: b.Pos, Message: b.Name + " has namespaces of its own, in which no agent is that runs already"}}
		}
	}
	return []*workspace{w}, nil
}

// suite is one benchmark, with the default policy.
func (a *atWork) suite(find bench.Find, who string) *config.Suite {
	agent := bench.Agent{Name: identifierOf(who), Find: find}
	s := &config.Suite{Version: config.Version, Dir: ".", Agents: []bench.Agent{agent}, Policy: gate.DefaultPolicy()}
	b := bench.Benchmark{Name: agent.Name + "/watched", Program: agent.Name, Agent: &s.Agents[0], Work: &bench.Work{Duration: a.duration}}
	switch {
	case a.work != "":
		b.Name, b.Work.Run = agent.Name+"/work", a.work
	case a.duration == 0:
		b.Work.Duration = time.Second
	}
	s.Benchmarks = []bench.Benchmark{b}
	return s
}

// find says where the programs are, and names what was asked for.
func (a *atWork) find() (f bench.Find, who []string, err error) {
	for _, pid := range a.pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || pid <= 0 {
			return f, nil, usage("--pid %d: there is no such process", pid)
		}
		f.PIDs, who = append(f.PIDs, pid), append(who, strings.TrimSpace(string(name)))
	}
	for _, where := range a.attachTo {
		var st unix.Statfs_t
		switch _, err := net.InterfaceByName(where); {
		case err == nil:
			f.Interfaces = append(f.Interfaces, where)
		case !filepath.IsAbs(where) || unix.Statfs(where, &st) != nil:
			return f, nil, usage("--attach-to %s: neither a network interface, nor the path of a control group or of a pin", where)
		case st.Type == unix.BPF_FS_MAGIC:
			f.Pins = append(f.Pins, where)
		case st.Type == unix.CGROUP2_SUPER_MAGIC:
			f.Cgroups = append(f.Cgroups, where)
		default:
			return f, nil, &exitError{code: exitUsage, err: fmt.Errorf("--attach-to %s: neither a control group of version 2 nor on a bpffs", where), hint: "mount -t bpf bpf /sys/fs/bpf makes a bpffs"}
		}
		who = append(who, filepath.Base(where))
	}
	if len(who) == 0 {
		return f, nil, errors.New("nothing was asked for")
	}
	return f, who, nil
}

var notInIdentifier = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// identifierOf makes a name of a config of any other.
func identifierOf(s string) string {
	s = notInIdentifier.ReplaceAllString(s, "_")
	if s == "" || s[0] >= '0' && s[0] <= '9' || s[0] == '.' {
		s = "_" + s
	}
	return s
}
