package config

import (
	"fmt"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// ParseConstant reads a global variable and its value from "name = value", where
// the value is what may stand under constants: in a config.
func ParseConstant(s string) (c bench.Constant, err error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return c, fmt.Errorf("%s: expected name = value", quote(s))
	}
	r := &reader{}
	if c.Name = strings.TrimSpace(name); !identifier.MatchString(c.Name) {
		return c, fmt.Errorf("%s is not a name of a variable", quote(c.Name))
	}
	if strings.TrimSpace(value) == "" {
		return c, fmt.Errorf("%s: a value is missing", quote(s))
	}
	root := r.tree([]byte(value))
	if root != nil {
		if c.Value, ok = r.value(root); ok {
			r.only(c.Value, "a constant", false)
		}
	}
	if len(r.found) > 0 {
		first := r.found[0]
		if first.Hint != "" {
			return c, fmt.Errorf("%s: %s (%s)", quote(s), first.Message, first.Hint)
		}
		return c, fmt.Errorf("%s: %s", quote(s), first.Message)
	}
	c.Value.Pos = bench.Pos{File: c.Name} // there is no file and no line
	if root == nil {
		return c, fmt.Errorf("%s is no value", quote(value))
	}
	return c, nil
}
