package symbol

import (
	"fmt"
	"slices"
)

// maxCached is how many addresses a cache holds before it starts anew.
const maxCached = 1 << 17

// maxDoubts is how many different complaints are kept.
const maxDoubts = 64

// doubts are what a report should say beside its names, each once.
type doubts struct {
	texts []string
	more  int
}

func (d *doubts) add(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	switch {
	case slices.Contains(d.texts, text):
	case len(d.texts) < maxDoubts:
		d.texts = append(d.texts, text)
	default:
		d.more++
	}
}

func (d *doubts) list() []string {
	list := slices.Clone(d.texts)
	if d.more > 0 {
		list = append(list, fmt.Sprintf("and %d more of this kind", d.more))
	}
	return list
}
