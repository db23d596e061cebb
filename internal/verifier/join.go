package verifier

// A Pair is one program of base and head; either may be nil, not both. Without a
// comparison there is head alone.
type Pair struct {
	File, Program string
	Base, Head    *Row
	compared      bool
}

// Broken tells that the verifier accepted the program in base, and not in head.
func (p *Pair) Broken() bool {
	return p.Base != nil && p.Head != nil && p.Base.Accepted && !p.Head.Accepted
}

// Alone are rows without a comparison.
func Alone(rows []Row) []Pair {
	out := make([]Pair, len(rows))
	for i := range rows {
		out[i] = Pair{File: rows[i].File, Program: rows[i].Program, Head: &rows[i]}
	}
	return out
}

// Join finds the programs of base in head: by file and name, or, where each side is
// one file, by name alone. Programs of one side are there without the other.
func Join(base, head []Row) []Pair {
	type key struct{ file, program string }
	alone := oneFile(base) && oneFile(head)
	of := func(r *Row) key {
		if alone {
			return key{program: r.Program}
		}
		return key{r.File, r.Program}
	}
	var out []Pair
	at := map[key]int{}
	for i := range head {
		r := &head[i]
		at[of(r)] = len(out)
		out = append(out, Pair{File: r.File, Program: r.Program, Head: r, compared: true})
	}
	for i := range base {
		r := &base[i]
		if j, ok := at[of(r)]; ok && out[j].Base == nil {
			out[j].Base = r
			continue
		}
		out = append(out, Pair{File: r.File, Program: r.Program, Base: r, compared: true})
	}
	return out
}

func oneFile(rows []Row) bool {
	for i := range rows {
		if rows[i].File != rows[0].File {
			return false
		}
	}
	return true
}
