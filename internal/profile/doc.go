// Package profile is what a profile is once its addresses have names: how often each stack was
// seen, added up, and written in the forms that people and tools read.
//
// It stands between package bpf, which samples addresses, internal/symbol, which names them, and
// the command line:
//
//	c := profile.NewCollector(kernel, users, profile.Options{...})
//	c.Add(sample)                    // for each; c.Exec and c.Exit between them
//	p := c.Profile()                 // added up; it may also be asked for in between
//	profile.Folded(w, p)             // Top, SVG, DiffSVG, Pprof
//
// Memory is bounded however long a profile takes: what is kept is kept by stack, not by sample,
// and where there are too many stacks the rest is added up without theirs, and counted. [List] and
// [Extended] write single samples, as they come.
//
// It samples nothing, names nothing, and needs no particular system. Names of functions, files and
// threads come from strangers: they lose what would break a line, a stack or a page before they are
// written.
package profile
