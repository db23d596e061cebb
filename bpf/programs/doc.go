// Package programs is the programs that are in the kernel, whoever loaded them: which there
// are, where they hang, who holds them, and how often and how long they run.
package programs
