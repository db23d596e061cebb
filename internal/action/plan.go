package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// PlanFile is the name of the plan in the directory that enters the container.
const PlanFile = "plan.json"

const planVersion = 2

// A Plan says what the files are that entered the container, and how they are to
// be measured. Its paths are local to the directory that it lies in.
type Plan struct {
	Version int     `json:"version"`
	Suites  []Suite `json:"suites"`
	// Base is what head is compared with; nil: it is measured alone.
	Base    *bench.Revision `json:"base,omitempty"`
	Head    bench.Revision  `json:"head"`
	Testbed string          `json:"testbed,omitempty"`
	Budget  time.Duration   `json:"budget,omitempty"`
	Only    []string        `json:"only,omitempty"`
}

// A Suite is what one config says. Where it is not alone it has a name, as
// [config.File] gives it, and the directory that its config is in.
type Suite struct {
	Name string `json:"name,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Config is head's config; Policy is base's, empty where base has none.
	Config string `json:"config"`
	Policy string `json:"policy,omitempty"`
	// Base is nil where head is measured alone, or base has no such suite.
	Base     *Side    `json:"base,omitempty"`
	Head     Side     `json:"head"`
	Warnings []string `json:"warnings,omitempty"`
}

// A Side is one revision's objects.
type Side struct {
	Objects []Object `json:"objects"`
}

// An Object is a compiled object.
type Object struct {
	Name string `json:"name"` // as the config has it
	File string `json:"file"`
}

// WritePlan writes a plan beside its files.
func WritePlan(dir string, p *Plan) error {
	p.Version = planVersion
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, PlanFile), data, 0o644)
}

// ReadPlan reads the plan of a directory. All its paths are local.
func ReadPlan(dir string) (*Plan, error) {
	data, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	var p Plan
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the plan: data after it")
	}
	if p.Version != planVersion {
		return nil, fmt.Errorf("read the plan: version %d, this gate reads %d: the image and the action do not belong together", p.Version, planVersion)
	}
	if len(p.Suites) == 0 || len(p.Suites) > bench.MaxSuites {
		return nil, fmt.Errorf("read the plan: %d suites", len(p.Suites))
	}
	var names []string
	for _, suite := range p.Suites {
		names = append(names, suite.Config)
		if suite.Policy != "" {
			names = append(names, suite.Policy)
		}
		sides := []Side{suite.Head}
		if suite.Base != nil {
			sides = append(sides, *suite.Base)
		}
		for _, s := range sides {
			for _, o := range s.Objects {
				names = append(names, o.File)
			}
		}
	}
	for _, n := range names {
		if !filepath.IsLocal(n) {
			return nil, fmt.Errorf("read the plan: %q leads out of it", n)
		}
	}
	return &p, nil
}
