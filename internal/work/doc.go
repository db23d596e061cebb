//go:build linux

// Package work is what goes on while the kernel counts: the commands of a config,
// and the namespaces, interfaces and control group that they run in.
//
// The flow, in order:
//
//  1. [New] makes a [Place]: network namespaces without names, joined by veth
//     pairs, and where a program hangs on one a control group.
//  2. [Place.Ready] makes a [Jail] in one of the namespaces, of which nothing is
//     counted yet: a process namespace, so that whatever a command starts ends
//     with it, a daemon, too.
//  3. [Jail.Run] runs a command there, as the owner of the config's directory, with
//     a time limit, and keeps the end of what it says.
//  4. [Find] finds the figures that the command states in what it said.
//
// The package loads no program, counts nothing, and knows no side: a command
// cannot learn whether base or head is at work, so it cannot do less for one.
//
// A place goes with the process, however that ends: namespaces are held by file
// descriptors, and each jail's first process waits for the end of a pipe. Only a
// control group has a name; see [Place.Cgroup].
package work
