//go:build linux

package agent

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A look is what was found of an agent at one time.
type look struct {
	programs []Program
	ids      string // of the programs
	// descriptors of eBPF objects grow in number while programs are attached.
	descriptors int
	// missing are names that are expected.
	missing []string
}

// look looks for the agent's programs once.
func (a *Agent) look() (*look, error) {
	var ids []uint32
	descriptors := 0
	add := func(found []uint32, err error) error {
		ids = append(ids, found...)
		return err
	}
	if a.p != nil {
		held, n := programs.Holdings(pids(a.p.members())...)
		descriptors = n
		_ = add(held, nil)
		if err := add(programs.Pinned(a.p.root() + "/sys/fs/bpf")); err != nil {
			return nil, err
		}
		if a.net != nil {
			if err := add(programs.OnInterfaces(a.net, "")); err != nil {
				return nil, err
			}
		}
	}
	for _, pid := range a.spec.Find.PIDs {
		held, n := programs.Holdings(append(pids(descendants(pid)), pid)...)
		descriptors += n
		_ = add(held, nil)
	}
	for _, dir := range a.spec.Find.Pins {
		if err := add(programs.Pinned(dir)); err != nil {
			return nil, err
		}
	}
	for _, dir := range a.spec.Find.Cgroups {
		if err := add(programs.OnCgroup(dir)); err != nil {
			return nil, err
		}
	}
	for _, name := range a.spec.Find.Interfaces {
		if err := add(programs.OnInterfaces(nil, name)); err != nil {
			return nil, err
		}
	}
	infos, err := a.named()
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	if a.p != nil {
		// Older ones are somebody else's, which it looks at.
		ids = slices.DeleteFunc(ids, func(id uint32) bool { return id <= a.last })
	}
	others, err := programs.Describe(slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	l := &look{programs: group(append(infos, others...)), descriptors: descriptors}
	for _, p := range l.programs {
		l.ids += fmt.Sprint(p.IDs)
	}
	for _, want := range a.spec.Programs {
		if !slices.ContainsFunc(l.programs, func(p Program) bool { return p.is(want) }) {
			l.missing = append(l.missing, want)
		}
	}
	return l, nil
}

// is tells whether the program is the one that a config means by a name or a glob.
// The kernel's own names stop at 15 characters.
func (p Program) is(want string) bool {
	const kernelName = 15
	if ok, _ := path.Match(want, p.Name); ok {
		return true
	}
	return len(p.Name) == kernelName && strings.HasPrefix(want, p.Name)
}

// named are the programs that find: {names} means.
func (a *Agent) named() ([]programs.Info, error) {
	if len(a.spec.Find.Names) == 0 {
		return nil, nil
	}
	ids, err := programs.LoadedAfter(a.last)
	if err != nil {
		return nil, err
	}
	all, err := programs.Describe(ids)
	return slices.DeleteFunc(all, func(p programs.Info) bool {
		return !slices.ContainsFunc(a.spec.Find.Names, func(glob string) bool {
			ok, _ := path.Match(glob, p.Name)
			return ok
		})
	}), err
}

// group puts programs of one name together, in the order of the names.
func group(infos []programs.Info) []Program {
	slices.SortFunc(infos, func(a, b programs.Info) int {
		if d := strings.Compare(nameOf(a), nameOf(b)); d != 0 {
			return d
		}
		return int(a.ID) - int(b.ID)
	})
	var all []Program
	for _, i := range infos {
		name := nameOf(i)
		if n := len(all); n > 0 && all[n-1].Name == name {
			p := &all[n-1]
			if !slices.Contains(p.IDs, i.ID) {
				p.IDs = append(p.IDs, i.ID)
			}
			continue
		}
		all = append(all, Program{Name: name, Type: i.Type, IDs: []uint32{i.ID}, Uncounted: i.Type == "ext"})
	}
	return all
}

// nameOf is a name for what has none, too.
func nameOf(p programs.Info) string {
	if p.Name == "" {
		return "unnamed_" + p.Type
	}
	return p.Name
}

// listens tells whether something listens on a TCP port of the network namespace
// that the processes are in (proc_pid_net_tcp(5)). Nobody is disturbed by that.
func listens(members []member, port int) bool {
	want := fmt.Sprintf(":%04X", port)
	const local, state, listen = 1, 3, "0A"
	for _, m := range members {
		for _, file := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", m.pid, file))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(text)) {
				f := strings.Fields(line)
				if len(f) > state && f[state] == listen && strings.HasSuffix(f[local], want) {
					return true
				}
			}
		}
	}
	return false
}
