//go:build !unix

package action

import "os/exec"

func isolate(*exec.Cmd) {}
