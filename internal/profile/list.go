package profile

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// List is a sample as people read it: when, who and where, and each stack with its innermost
// function first.
func (c *Collector) List(s *Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] COMM: %s (pid=%d tid=%d) @ CPU %d", s.Time.Format("15:04:05.000000"), visible(s.Comm), s.PID, s.TID, s.CPU)
	if c.options.Type == OffCPU {
		fmt.Fprintf(&b, " waited %v", s.Off.Round(time.Microsecond))
	}
	b.WriteByte('\n')
	section := func(title string, stack []uint64, from int, at func(addr uint64, isReturn bool) named) {
		if from == len(stack) {
			return
		}
		b.WriteString(title + ":\n")
		for i := from; i < len(stack); i++ {
			addr := stack[i]
			for k, f := range at(addr, i > 0).frames {
				if i > 0 {
					f.Offset++ // it was looked up one before
				}
				where := fmt.Sprintf("%#016x", addr)
				if k > 0 {
					where = strings.Repeat(" ", len(where))
				}
				fmt.Fprintf(&b, "  %s %s\n", where, full(f))
			}
		}
	}
	section("Kernel", s.Kernel, c.asleep(s), c.kernelPlace)
	section("Userspace", s.User, 0, func(addr uint64, isReturn bool) named { return c.userPlace(s.PID, addr, isReturn) })
	b.WriteByte('\n')
	return b.String()
}

// full is all that is known of a frame.
func full(f symbol.Frame) string {
	var b strings.Builder
	b.WriteString(visible(name(f)))
	if !f.Inlined && f.Function+f.Module != "" {
		fmt.Fprintf(&b, "+%#x", f.Offset)
	}
	if f.Function != "" && f.Module != "" && f.Module != "[kernel]" {
		b.WriteString(" (" + visible(f.Module) + ")")
	}
	if f.Inlined {
		b.WriteString(" (inlined)")
	}
	if at := position(f); at != "" {
		b.WriteString(" " + at)
	}
	return b.String()
}

// position is a frame's file and line, or "".
func position(f symbol.Frame) string {
	if f.File == "" {
		return ""
	}
	return visible(f.File) + ":" + strconv.Itoa(f.Line)
}

// Extended is a sample as a line of extended folded output: the time in ns since 1970, the thread
// and the CPU, and the stack with its outermost function first, marked _[k] for the kernel, _[b] for
// eBPF programs and _[i] for what was inlined, with files and lines where they are known. What follows
// the last space is 1, or the time of a wait in µs.
func (c *Collector) Extended(s *Sample) string {
	fields := []string{strconv.FormatInt(s.Time.UnixNano(), 10), word(s.Comm),
		strconv.FormatUint(uint64(s.PID), 10), strconv.FormatUint(uint64(s.TID), 10), strconv.FormatUint(uint64(s.CPU), 10)}
	add := func(frames []symbol.Frame) {
		for k := len(frames) - 1; k >= 0; k-- {
			fields = append(fields, marked(frames[k]))
		}
	}
	for i := len(s.User) - 1; i >= 0; i-- {
		add(c.userPlace(s.PID, s.User[i], i > 0).frames)
	}
	for i := len(s.Kernel) - 1; i >= c.asleep(s); i-- {
		add(c.kernelPlace(s.Kernel[i], i > 0).frames)
	}
	value := int64(1)
	if c.options.Type == OffCPU {
		value = s.Off.Microseconds()
	}
	return strings.Join(fields, ";") + " " + strconv.FormatInt(value, 10) + "\n"
}

// marked is a frame with what kind it is and where it comes from.
func marked(f symbol.Frame) string {
	s := word(name(f))
	if f.File != "" {
		s += " (" + word(path.Base(f.File)) + ":" + strconv.Itoa(f.Line) + ")"
	}
	switch {
	case f.Kind == symbol.KindKernel:
		s += "_[k]"
	case f.Kind == symbol.KindBPF:
		s += "_[b]"
	case f.Inlined:
		s += "_[i]"
	}
	return s
}

// word makes a name fit for a place between semicolons.
func word(s string) string {
	return strings.ReplaceAll(visible(s), ";", ":")
}
