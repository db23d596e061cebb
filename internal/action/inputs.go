package action

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Inputs are what a workflow says to the action, of what this package needs. Each
// arrives in an environment variable of its own: an expression that was put into
// a script would be code.
type Inputs struct {
	Config     string // the config, relative to the workspace
	ID         string // of the comment, the status and the artifacts
	Base       string // a git ref; empty: what the event says
	Testbed    string // empty: made from the host
	Budget     time.Duration
	Only       []string
	Privileges Privileges
	Image      string // the image, which is there already
	Docker     string // the docker command
	Workspace  string // the checkout
	Temp       string // a directory of the job
	Ephemeral  bool   // a self-hosted runner that is used once
}

// Privileges says how the measuring container may do what it has to.
type Privileges string

// The privileges.
const (
	Auto       Privileges = "auto"       // privileged, or capabilities where the engine refuses
	Privileged Privileges = "privileged" // docker run --privileged
	Caps       Privileges = "caps"       // single capabilities
)

const maxInput = 1024 // bytes

// ReadInputs reads the inputs of the measuring step. It tells every mistake.
func ReadInputs(getenv func(string) string) (Inputs, error) {
	var errs []error
	get := func(name string) string {
		v := strings.TrimSpace(getenv("GATE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))))
		if len(v) > maxInput || strings.ContainsFunc(v, isControl) {
			errs = append(errs, fmt.Errorf("input %s: longer than %d bytes, or more than one line", name, maxInput))
			return ""
		}
		return v
	}
	or := func(v, or string) string {
		if v == "" {
			return or
		}
		return v
	}
	in := Inputs{
		Config: or(get("config"), "ebpf-bench.yml"), ID: or(get("id"), "default"), Base: get("base"), Testbed: get("testbed"),
		Privileges: Privileges(or(get("privileges"), string(Auto))), Image: get("image"), Docker: or(get("docker"), "docker"),
		Workspace: strings.TrimSpace(getenv("GITHUB_WORKSPACE")), Temp: strings.TrimSpace(getenv("RUNNER_TEMP")),
		Ephemeral: get("ephemeral") == "true",
	}
	switch in.Privileges {
	case Auto, Privileged, Caps:
	default:
		errs = append(errs, fmt.Errorf("input privileges: %q is none of auto, privileged, caps", in.Privileges))
	}
	if b := get("budget"); b != "" {
		d, err := time.ParseDuration(b)
		if err != nil || d <= 0 || d > 24*time.Hour {
			errs = append(errs, fmt.Errorf("input budget: %q is no time such as 90s or 5m, up to 24h", b))
		}
		in.Budget = d
	}
	words := strings.Fields(get("args"))
	for i := 0; i < len(words); i++ {
		glob, ok := strings.CutPrefix(words[i], "--only=")
		if words[i] == "--only" && i+1 < len(words) {
			i++
			glob, ok = words[i], true
		}
		if _, err := path.Match(glob, ""); !ok || err != nil {
			errs = append(errs, fmt.Errorf("input args: %q: expected --only GLOB", words[i]))
			continue
		}
		in.Only = append(in.Only, glob)
	}
	if !filepath.IsLocal(filepath.FromSlash(in.Config)) {
		errs = append(errs, fmt.Errorf("input config: %q leads out of the checkout", in.Config))
	}
	if strings.HasPrefix(in.Base, "-") {
		errs = append(errs, fmt.Errorf("input base: %q is no git ref", in.Base))
	}
	if in.Image == "" {
		errs = append(errs, errors.New("no image: GATE_IMAGE is not set"))
	}
	if in.Workspace == "" {
		errs = append(errs, errors.New("no checkout: GITHUB_WORKSPACE is not set"))
	}
	if in.Temp == "" || strings.Contains(in.Temp, ",") { // a mount's options are parted by commas
		errs = append(errs, fmt.Errorf("RUNNER_TEMP is %q, which no container can be given", in.Temp))
	}
	return in, errors.Join(errs...)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
