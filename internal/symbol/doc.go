// Package symbol turns addresses into frames: what function, in what file, on what line.
//
// It is the second half of a profile. Package bpf samples stacks, which are addresses; this
// package names them, while the processes still live or soon after; internal/profile adds up
// and writes what it is given. It samples nothing, adds nothing up and prints nothing.
//
//	kernel, err := symbol.ReadKernel()      // kallsyms, and the eBPF programs with their lines
//	users := symbol.NewUsers(symbol.Options{})
//	users.Process(pid)                      // what it maps, files held open: it may exit now
//	users.Frames(pid, addr)                 // innermost first, inlined functions expanded
//
// Kernel addresses are named by /proc/kallsyms, which knows modules and eBPF programs too; for
// the latter the kernel also tells which line each JITed instruction came from. An address of a
// process belongs to a mapping, the mapping to a file, and the file is read as far as the address
// needs: a Go program by its pclntab, which survives stripping, others by DWARF and their symbol
// tables (or those of a separate debug file, or of MiniDebugInfo). The vDSO is read from the
// process, and code that was made at run time is named by the perf map that the process wrote.
//
// Everything read here was made by whoever made the program, or is being changed by it as we
// look. Sizes are bounded before they are believed, paths stay inside the process's root, names
// lose their control characters, and a parser that panics costs its file, not the profile.
//
// Note: golang's pprof keeps its readers internal, delve's need a debugger's process, and those
// of the OpenTelemetry and Parca agents come with their agents (and are made for uploading what
// they find, not for lines). The formats themselves are read by the standard library.
package symbol
