package vm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A snapshot is a machine that has booted, and stands still where its init waits for
// its files. It is of one run: with it the machine goes on once.
type snapshot struct {
	memory *os.File // the machine's, without a name
	state  *os.File // of its CPU and devices, as QEMU writes it
	window []extent // of the memory
}

// newSnapshot is one of a machine that never ran.
func newSnapshot(memory int64) (*snapshot, error) {
	nothing := func(io.Writer) error { return nil }
	state, err := inMemory("state", nothing)
	if err != nil {
		return nil, err
	}
	s := &snapshot{state: state}
	if s.memory, err = inMemory("machine", nothing); err == nil {
		if err = s.memory.Truncate(memory); err == nil {
			return s, nil
		}
		s.memory.Close()
	}
	state.Close()
	return nil, err
}

func (s *snapshot) close() {
	s.memory.Close()
	s.state.Close()
}

// A stored snapshot is
//
//	bytes 0-15   snapshotMagic
//	bytes 16-19  CRC-32C of all that follows, big endian
//	bytes 20-23  length of the header, big endian
//	then         the header, JSON
//	then         the state
//	then         what of the memory is not zero
//
// and named by what it depends on.
type snapshotHeader struct {
	Memory int64    `json:"memory"` // bytes
	State  int64    `json:"state"`  // bytes
	Window []extent `json:"window"`
	Filled []extent `json:"filled"` // in ascending order
}

const (
	snapshotMagic = "gate's snapshot\n"
	snapshotFixed = len(snapshotMagic) + 8
	maxHeader     = 16 << 20
	maxState      = 64 << 20
	maxStored     = 2048 // MiB of a machine; what has more has it in two places
	// maxSnapshots are kept in a directory: those that were used last.
	maxSnapshots = 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBroken is that a stored snapshot is none.
var errBroken = errors.New("the snapshot is damaged")

// mapped lets f see a file as memory.
func mapped(file *os.File, size int64, prot int, f func(b []byte) error) error {
	b, err := unix.Mmap(int(file.Fd()), 0, int(size), prot, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	return errors.Join(f(b), unix.Munmap(b))
}

// filled are the parts of memory that are not zero, by pages. Holes of the file are
// not read.
func filled(file *os.File, memory []byte) ([]extent, error) {
	var all []extent
	zero := make([]byte, pageSize)
	fd, size := int(file.Fd()), int64(len(memory))
	for at := int64(0); at < size; {
		begin, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, os.NewSyscallError("lseek", err)
		}
		end, err := unix.Seek(fd, begin, unix.SEEK_HOLE)
		if err != nil {
			return nil, os.NewSyscallError("lseek", err)
		}
		for at = begin; at < end; at += pageSize {
			if bytes.Equal(memory[at:at+pageSize], zero) {
				continue
			}
			if n := len(all); n > 0 && all[n-1].At+all[n-1].Size == at {
				all[n-1].Size += pageSize
				continue
			}
			all = append(all, extent{at, pageSize})
		}
	}
	return all, nil
}

// store puts the snapshot into a directory, whole or not at all, and removes those
// that were not used for the longest time.
func (s *snapshot) store(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	sweep(dir)
	defer keep(dir, maxSnapshots)
	info, err := s.memory.Stat()
	if err != nil {
		return err
	}
	h := snapshotHeader{Memory: info.Size(), Window: s.window}
	if info, err = s.state.Stat(); err != nil {
		return err
	}
	h.State = info.Size()
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := mapped(s.memory, h.Memory, unix.PROT_READ, func(memory []byte) error {
		if h.Filled, err = filled(s.memory, memory); err != nil {
			return err
		}
		return h.write(f, io.NewSectionReader(s.state, 0, h.State), memory)
	}); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, name))
}

func (h *snapshotHeader) write(f *os.File, state io.Reader, memory []byte) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := f.Seek(int64(snapshotFixed-4), io.SeekStart); err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	buffered := bufio.NewWriterSize(f, 1<<20)
	w := io.MultiWriter(sum, buffered)
	_, err = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		_, err = io.Copy(w, state)
	}
	for _, e := range h.Filled {
		if err == nil {
			_, err = w.Write(memory[e.At : e.At+e.Size])
		}
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		_, err = f.WriteAt(sum.Sum([]byte(snapshotMagic)), 0)
	}
	return err
}

// openSnapshot reads a stored snapshot into memory.
func openSnapshot(name string) (*snapshot, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // it was used
	fixed := make([]byte, snapshotFixed)
	if _, err := io.ReadFull(f, fixed); err != nil || string(fixed[:len(snapshotMagic)]) != snapshotMagic {
		return nil, errBroken
	}
	want := binary.BigEndian.Uint32(fixed[len(snapshotMagic):])
	length := fixed[len(snapshotMagic)+4:]
	n := binary.BigEndian.Uint32(length)
	if n > maxHeader || int64(n) > info.Size() {
		return nil, errBroken
	}
	text := make([]byte, n)
	var h snapshotHeader
	if _, err := io.ReadFull(f, text); err != nil || json.Unmarshal(text, &h) != nil || !h.fits(info.Size()-int64(snapshotFixed)-int64(n)) {
		return nil, errBroken
	}
	sum := crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, text)
	s, err := newSnapshot(h.Memory)
	if err != nil {
		return nil, err
	}
	s.window = h.Window
	if err := s.read(f, &h, sum, want); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// read reads what is behind the header, of which the sum so far is given.
func (s *snapshot) read(f io.Reader, h *snapshotHeader, sum, want uint32) error {
	state := make([]byte, h.State)
	if _, err := io.ReadFull(f, state); err != nil {
		return errBroken
	}
	sum = crc32.Update(sum, castagnoli, state)
	if _, err := s.state.WriteAt(state, 0); err != nil { // QEMU reads from the beginning
		return err
	}
	err := mapped(s.memory, h.Memory, unix.PROT_READ|unix.PROT_WRITE, func(memory []byte) error {
		for _, e := range h.Filled {
			// In pieces that a cache of the CPU holds until they are summed up.
			for part := range slices.Chunk(memory[e.At:e.At+e.Size], 256<<10) {
				if _, err := io.ReadFull(f, part); err != nil {
					return errBroken
				}
				sum = crc32.Update(sum, castagnoli, part)
			}
		}
		return nil
	})
	if err == nil && sum != want {
		err = errBroken
	}
	return err
}

// fits tells whether a header can be of a file that has so many bytes behind it.
func (h *snapshotHeader) fits(left int64) bool {
	if h.Memory <= 0 || h.Memory > maxStored<<20 || h.State < 0 || h.State > maxState {
		return false
	}
	end := int64(0)
	for _, e := range h.Filled {
		if e.At < end || e.Size <= 0 || e.At > h.Memory || e.Size > h.Memory-e.At {
			return false
		}
		end = e.At + e.Size
		left -= e.Size
	}
	for _, e := range h.Window {
		if e.At < 0 || e.Size <= 0 || e.At > h.Memory || e.Size > h.Memory-e.At {
			return false
		}
	}
	return left == h.State
}

// keep removes all but a few files of a directory: those that were used last.
func keep(dir string, most int) {
	type file struct {
		name string
		used time.Time
	}
	var all []file
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && e.Name()[0] != '.' {
			all = append(all, file{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.name, b.name)) })
	for _, f := range all[min(len(all), most):] {
		_ = os.Remove(filepath.Join(dir, f.name))
	}
}

// An unusable is that a machine cannot be stored, or go on from where it was.
type unusable struct{ err error }

func (u *unusable) Error() string { return fmt.Sprintf("no snapshot: %v", u.err) }
func (u *unusable) Unwrap() error { return u.err }
