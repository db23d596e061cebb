// Package harness runs a benchmark that is a command of user space: go test -bench,
// cargo bench, a test binary, whatever package internal/adapter reads.
//
// The flow, in order:
//
//  1. [New] says in which tree the command runs, and makes a directory for what it
//     writes.
//  2. [Process.Run] runs it once, as the build commands run: as the user who called
//     gate, or the owner of the tree where that is root, with a time limit, and without
//     the credentials of a job.
//  3. What it said, or a file that it wrote, becomes results, each with one sample; and
//     its profiles become places in the source ([Explain]).
//
// The package measures nothing, takes no turns and knows no side: package
// internal/runner has base's and head's processes take turns.
package harness
