//go:build !unix

package build

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// Elsewhere gate only compares saved runs. These exist so that it compiles.

type owner struct {
	home, name string
	switched   bool
}

func ownerOf(string) owner             { return owner{} }
func (owner) isolate(*exec.Cmd)        {}
func (owner) give(string) error        { return nil }
func (owner) mayRead(fs.FileInfo) bool { return true }
func (owner) giveIn(*os.Root, string)  {}
func killAll(*exec.Cmd)                {}
func tryLock(*os.File) error           { return errors.ErrUnsupported }

const noFollow = 0
