// Command gate is a performance regression gate for eBPF programs.
package main

import (
	"os"

	"github.com/org/ebpf-bench-gate/internal/cli"
)

func main() {
	os.Exit(cli.Command{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(os.Args))
}
