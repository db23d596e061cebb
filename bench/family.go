package bench

import "strings"

// Some measures are families: there is one of each helper that a program calls, of
// each map that it uses, of each figure that the work states, or of each count of
// another tool. A member is named after both, "calls[bpf_redirect]"; the name of the
// family alone stands for all of them where limits are written.

// MaxMembers is how many members of families, all together, a benchmark of a run has
// at most: those that happen most.
const MaxMembers = 64

// IsFamily tells whether a measure has members.
func IsFamily(name string) bool {
	switch name {
	case Calls, MapLookup, MapUpdate, MapDelete, MapOutput, Figures, Counts:
		return true
	}
	return false
}

// IsDeclared tells whether the unit and direction of a measure stand with its results,
// not in the table.
func IsDeclared(name string) bool {
	family, _, _ := SplitMember(name)
	return family == Figures || family == Counts
}

// Member is the name of a family's measure of one member.
func Member(family, member string) string { return family + "[" + member + "]" }

// SplitMember takes the name of a member apart. Of any other name it returns the
// name and false.
func SplitMember(name string) (family, member string, ok bool) {
	family, rest, found := strings.Cut(name, "[")
	member, end := strings.CutSuffix(rest, "]")
	if !found || !end || member == "" {
		return name, "", false
	}
	return family, member, true
}
