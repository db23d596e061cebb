//go:build linux

package agent

import (
	"bytes"
	"os"
	"strconv"
)

// A member is a process of a tree.
type member struct {
	pid, parent int
	// begun is when it was started, in ticks since boot: the number alone may be
	// another process's by now.
	begun uint64
}

// descendants are the processes below one that have not ended, in no order.
func descendants(root int) []member {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	children := make(map[int][]member)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if m, ok := stat(pid); ok {
			children[m.parent] = append(children[m.parent], m)
		}
	}
	var all []member
	for next := children[root]; len(next) > 0; {
		m := next[0]
		next = append(next[1:len(next):len(next)], children[m.pid]...)
		delete(children, m.pid) // numbers may have been given anew meanwhile
		all = append(all, m)
	}
	return all
}

// stat reads a process that is no zombie (proc_pid_stat(5)). The command, in
// brackets, may hold brackets of its own.
func stat(pid int) (member, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return member{}, false
	}
	const state, parent, begun = 0, 1, 19 // after the command
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) <= begun || string(f[state]) == "Z" {
		return member{}, false
	}
	m := member{pid: pid}
	m.parent, err = strconv.Atoi(string(f[parent]))
	if err == nil {
		m.begun, err = strconv.ParseUint(string(f[begun]), 10, 64)
	}
	return m, err == nil
}

// pids are their numbers.
func pids(members []member) []int {
	all := make([]int, len(members))
	for i, m := range members {
		all[i] = m.pid
	}
	return all
}
