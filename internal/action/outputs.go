package action

import (
	"fmt"
	"os"
	"strings"

	"github.com/org/ebpf-bench-gate/internal/build"
)

// Outputs writes outputs of a step into the runner's file for them. Names and
// values are of one line; anything else is refused, since a second line would be
// an output of its own.
func Outputs(file string, pairs ...[2]string) error {
	if file == "" {
		return nil // not on a runner
	}
	var b strings.Builder
	for _, p := range pairs {
		if strings.ContainsFunc(p[0]+p[1], isControl) || strings.ContainsAny(p[0], "=<") {
			return fmt.Errorf("output %q: %q is not of one line", p[0], p[1])
		}
		fmt.Fprintf(&b, "%s=%s\n", p[0], p[1])
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(b.String())
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// HideFromBuilds takes out of this process' environment what builds, which
// inherit it, should not find. It is no wall: the code of a pull request runs as
// the same user in the same job, and that job must have nothing worth stealing.
func HideFromBuilds() {
	for _, name := range build.Credentials {
		_ = os.Unsetenv(name)
	}
}
