//go:build linux

package bpf

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"
)

// functionsOf are the functions of an executable or library that a pattern matches.
func functionsOf(file, pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a pattern", pattern)
	}
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	symbols, _ := f.Symbols() // a stripped file has none of these
	dynamic, _ := f.DynamicSymbols()
	var names []string
	for _, s := range slices.Concat(symbols, dynamic) {
		if ok, _ := path.Match(pattern, s.Name); ok && elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil, fmt.Errorf("%s has no function %s (is it stripped?)", file, pattern)
	}
	return names, nil
}
