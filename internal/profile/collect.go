package profile

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// Kernel names addresses of the kernel: [symbol.Kernel].
type Kernel interface {
	Frames(addr uint64) []symbol.Frame
}

// Users names addresses of processes: symbol.Users.
type Users interface {
	Process(pid int) error
	Frames(pid int, addr uint64) []symbol.Frame
	Where(pid int, addr uint64) (*symbol.Segment, uint64)
}

// Options say what a profile is of, and how much of it is kept.
type Options struct {
	Type   Type
	Event  string
	Period time.Duration
	Start  time.Time
	// Stacks bounds how many different ones are kept; 0 is 262,144, of some 200 bytes each. When half are taken, stacks
	// of different processes are added up as one.
	Stacks int
	// Addresses keeps each address for itself, as disassembling needs.
	Addresses bool
}

// A Sample is one moment of a thread, in addresses, innermost first.
type Sample struct {
	Time         time.Time
	CPU          uint32
	PID, TID     uint32
	Comm         string
	Kernel, User []uint64
	Off          time.Duration // for OffCPU
}

// A Collector names samples and adds them up. It serves one goroutine.
type Collector struct {
	options   Options
	kernel    Kernel
	users     Users
	inKernel  places
	processes map[uint32]places
	held      int // addresses in processes
	locations map[locationKey]*Location
	byID      []*Location
	stacks    map[string]*Stack // by key, which has their locations; see find
	coarse    uint64
	key       []byte
	stack     []*Location
}

// places are addresses that were named before.
type places map[uint64]named

type named struct {
	frames   []symbol.Frame // with their offsets
	location *Location
}

// A locationKey tells locations apart: what the machine ran, and what was inlined there.
type locationKey struct {
	inner, outer symbol.Frame
	place
}

const (
	defaultStacks = 1 << 18
	maxNames      = 1 << 10 // of threads whose stacks are not kept
	// maxPlaces bounds what is remembered of addresses, which it only saves time to remember.
	// Stacks that were walked wrongly have ever new ones.
	maxPlaces = 1 << 18
	// maxLocations bounds what stacks are made of. Programs that are built and run once each have
	// ever new ones; from there on they are not kept.
	maxLocations = 1 << 18
)

// NewCollector is ready for samples. Kernel may be nil where nobody may read its symbols.
func NewCollector(kernel Kernel, users Users, options Options) *Collector {
	options.Stacks = cmp.Or(options.Stacks, defaultStacks)
	return &Collector{
		options: options, kernel: kernel, users: users, inKernel: places{}, processes: map[uint32]places{},
		locations: map[locationKey]*Location{}, stacks: map[string]*Stack{},
	}
}

// Exec says that a process runs another program from now on.
func (c *Collector) Exec(pid uint32) { c.Exit(pid) }

// Exit says that a process is gone. Another may have its number.
func (c *Collector) Exit(pid uint32) {
	c.held -= len(c.processes[pid])
	delete(c.processes, pid)
}

// Add names a sample and adds it up.
func (c *Collector) Add(s *Sample) {
	c.stack = c.stack[:0]
	for i := c.asleep(s); i < len(s.Kernel); i++ {
		c.push(c.kernelPlace(s.Kernel[i], i > 0).location)
	}
	for i, addr := range s.User {
		c.push(c.userPlace(s.PID, addr, i > 0).location)
	}
	c.sum(s)
}

// push adds a location to the stack. Of a run of places that nobody can name, one is shown.
func (c *Collector) push(l *Location) {
	if n := len(c.stack); n > 0 && c.stack[n-1] == l && l.Frames[0].Function == "" {
		return
	}
	c.stack = append(c.stack, l)
}

func (c *Collector) sum(s *Sample) {
	value := int64(c.options.Period)
	if c.options.Type == OffCPU {
		value = int64(s.Off)
	}
	pid, stack := s.PID, c.stack
	comm := s.Comm
	if len(c.byID) >= maxLocations && slices.ContainsFunc(stack, func(l *Location) bool { return l.Frames[0] == notKept }) {
		c.coarse++
		pid, stack = 0, []*Location{c.location([]symbol.Frame{notKept}, place{})}
	}
	found := c.find(pid, comm, stack)
	if found == nil && len(c.stacks) >= c.options.Stacks/2 {
		pid = 0
		found = c.find(pid, comm, stack)
	}
	if found == nil && len(c.stacks) >= c.options.Stacks {
		c.coarse++
		stack = []*Location{c.location([]symbol.Frame{notKept}, place{})}
		if len(c.stacks) >= c.options.Stacks+maxNames { // threads call themselves what they like
			comm = "[others]"
		}
		found = c.find(pid, comm, stack)
	}
	if found == nil {
		found = &Stack{PID: pid, Comm: comm}
		c.stacks[string(c.key)] = found
	}
	found.Count++
	found.Value += value
}

// find looks for a stack, and leaves its key: the process, how many locations, which, and the name.
func (c *Collector) find(pid uint32, comm string, stack []*Location) *Stack {
	c.key = binary.NativeEndian.AppendUint32(c.key[:0], pid)
	c.key = binary.NativeEndian.AppendUint32(c.key, uint32(len(stack)))
	for _, l := range stack {
		c.key = binary.NativeEndian.AppendUint32(c.key, l.id)
	}
	c.key = append(c.key, comm...)
	return c.stacks[string(c.key)]
}

// stackOf reads the locations of a key.
func (c *Collector) stackOf(key string) []*Location {
	word := func(i int) uint32 { return binary.NativeEndian.Uint32([]byte(key[4*i : 4*i+4])) }
	stack := make([]*Location, word(1))
	for i := range stack {
		stack[i] = c.byID[word(2+i)]
	}
	return stack
}

func (c *Collector) kernelPlace(addr uint64, isReturn bool) named {
	p, ok := c.inKernel[addr]
	if ok {
		return p
	}
	frames := []symbol.Frame{{Module: "[kernel]", Offset: addr, Kind: symbol.KindKernel}}
	if c.kernel != nil {
		frames = c.kernel.Frames(before(addr, isReturn))
	}
	if len(c.inKernel) >= maxPlaces {
		clear(c.inKernel)
	}
	var at place
	if c.options.Addresses {
		at.addr = before(addr, isReturn)
	}
	p = named{frames, c.location(frames, at)}
	c.inKernel[addr] = p
	return p
}

func (c *Collector) userPlace(pid uint32, addr uint64, isReturn bool) named {
	known := c.processes[pid]
	p, ok := known[addr]
	if ok {
		return p
	}
	if known == nil {
		known = places{}
		c.processes[pid] = known
		_ = c.users.Process(int(pid)) // while it is there
	}
	frames := c.users.Frames(int(pid), before(addr, isReturn))
	var at place
	if c.options.Addresses {
		at.segment, at.addr = c.users.Where(int(pid), before(addr, isReturn))
	}
	p = named{frames, c.location(frames, at)}
	if c.held++; c.held > maxPlaces {
		clear(c.processes)
		c.held, known = 1, places{}
		c.processes[pid] = known
	}
	known[addr] = p
	return p
}

// before is the address to look up: that a call returns to may belong to the next line, or to the
// next function.
func before(addr uint64, isReturn bool) uint64 {
	if isReturn {
		return addr - 1
	}
	return addr
}

// location is the one with these frames, and at this place. How far into a function it is makes no
// difference.
func (c *Collector) location(frames []symbol.Frame, at place) *Location {
	plain := func(f symbol.Frame) symbol.Frame {
		f.Offset = 0
		return f
	}
	key := locationKey{plain(frames[0]), plain(frames[len(frames)-1]), at}
	if l := c.locations[key]; l != nil {
		return l
	}
	if len(c.byID) >= maxLocations && frames[0] != notKept {
		return c.location([]symbol.Frame{notKept}, place{})
	}
	own := make([]symbol.Frame, len(frames))
	for i, f := range frames {
		own[i] = plain(f)
	}
	l := &Location{id: uint32(len(c.byID)), Frames: own, place: at}
	c.locations[key] = l
	c.byID = append(c.byID, l)
	return l
}

// asleep is where the stack of a wait begins: what is before is how the kernel goes from one thread
// to another, which is where every wait ends, and the program that looks at that.
func (c *Collector) asleep(s *Sample) int {
	if c.options.Type == OffCPU {
		for i, addr := range s.Kernel {
			if c.kernelPlace(addr, i > 0).frames[0].Function == "__schedule" {
				return i + 1
			}
		}
	}
	return 0
}

// Profile is what was added up so far. Lost and Took are for the caller to fill.
func (c *Collector) Profile() *Profile {
	o := c.options
	p := &Profile{Type: o.Type, Event: o.Event, Period: o.Period, Start: o.Start, Coarse: c.coarse}
	for key, s := range c.stacks {
		kept := *s
		kept.Locations = c.stackOf(key)
		p.Stacks = append(p.Stacks, &kept)
	}
	slices.SortFunc(p.Stacks, func(a, b *Stack) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Comm, b.Comm), cmp.Compare(a.PID, b.PID), slices.CompareFunc(a.Locations, b.Locations,
			func(a, b *Location) int { return cmp.Compare(a.id, b.id) }))
	})
	return p
}
