//go:build linux && !amd64

package vm

import "errors"

// halt is for the machine alone, which is an x86-64.
func halt() error { return errors.ErrUnsupported }
