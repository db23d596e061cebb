package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// The sizes of a window in bytes. It is larger than this where the files are.
const (
	minWindow = 16 << 20
	maxWindow = 256 << 20
)

// restored runs the machine from a snapshot, which it takes first where there is none.
// The first run goes on from it as all later ones do, so that they are equal. An
// [*unusable] is that such a machine has to boot instead.
//
// What a stranger has in the guest gets there with the files, after the snapshot.
func (m *Machine) restored(ctx context.Context, bin string) ([]byte, error) {
	var archive bytes.Buffer
	if err := m.Files.write(&archive); err != nil {
		return nil, err
	}
	size := minWindow
	for size < archive.Len()+frameHeader {
		size *= 2
	}
	if size > maxWindow {
		return nil, &unusable{fmt.Errorf("%d MB of files", archive.Len()>>20)}
	}
	name, err := m.identity(bin, size)
	if err != nil {
		return nil, err
	}
	name = filepath.Join(m.Snapshots, name)
	s, err := openSnapshot(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(name)
		}
		if s, err = m.snapshot(ctx, bin, size); err != nil {
			return nil, err
		}
		// Without a place for it, the next run boots again.
		_ = s.store(filepath.Split(name))
	}
	defer s.close()
	if err := writeFrame(&pane{s.memory, s.window}, frame{given, archive.Bytes()}); err != nil {
		return nil, &unusable{err}
	}
	b, err := m.resume(ctx, bin, s)
	var u *unusable
	if errors.As(err, &u) {
		_ = os.Remove(name)
	}
	return b, err
}

// identity names all that a snapshot depends on: what boots, in which machine, by
// which QEMU.
func (m *Machine) identity(bin string, window int) (string, error) {
	qemu, err := os.Stat(bin)
	if err != nil {
		return "", err
	}
	var kernel, init string
	var both errgroup.Group
	both.Go(func() (err error) {
		kernel, err = m.Kernel.sum()
		return err
	})
	init, err = fileSum(m.Init)
	if err := errors.Join(err, both.Wait()); err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", []any{
		snapshotMagic, bin, qemu.Size(), qemu.ModTime().UnixNano(), m.hardware(), board, m.commandLine(), window, kernel, init,
	})
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// controlled is a machine whose memory is a snapshot's, with a monitor.
func (m *Machine) controlled(s *snapshot) (*process, *monitor, error) {
	mon, theirs, err := newMonitor()
	if err != nil {
		return nil, nil, err
	}
	p := &process{args: m.hardware()}
	p.add(
		"-machine", board+",memory-backend=ram",
		"-object", "memory-backend-file,id=ram,share=on,size="+strconv.Itoa(m.memory())+"M,mem-path="+p.path(s.memory),
		"-chardev", "socket,id=monitor,fd="+p.give(theirs), "-mon", "chardev=monitor,mode=control",
		"-device", "pvpanic",
	)
	return p, mon, nil
}

// snapshot boots the machine up to where it waits for its files.
func (m *Machine) snapshot(ctx context.Context, bin string, window int) (*snapshot, error) {
	s, err := newSnapshot(int64(m.memory()) << 20)
	if err != nil {
		return nil, err
	}
	if err := m.boot(ctx, bin, s, window); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (m *Machine) boot(ctx context.Context, bin string, s *snapshot, window int) error {
	kernel, initrd, err := m.images(nil)
	if err != nil {
		return err
	}
	defer kernel.Close()
	defer initrd.Close()
	p, mon, err := m.controlled(s)
	if err != nil {
		return err
	}
	defer mon.conn.Close()
	p.boots(kernel, initrd, m.commandLine(windowed+"="+strconv.Itoa(window)))
	// It stands still until it was greeted: nothing is asked of QEMU while the guest boots.
	p.add("-S", "-action", "panic=pause")
	m.tell("boot")
	g, err := m.start(bin, p)
	if err != nil {
		return err
	}
	_, err = g.watch(ctx, func() ([]byte, error) { return nil, g.halted(mon, s) })
	return err
}

// halted waits until the guest stands still, and saves it.
func (g *guest) halted(mon *monitor, s *snapshot) error {
	// QEMU tells no event to whom it was not greeted by.
	err := mon.greet()
	if err == nil {
		err = mon.run("cont", struct{}{}, nil)
	}
	if err != nil {
		return &unusable{err}
	}
	f, err := readFrame(g.said, 0)
	if err != nil {
		return err
	}
	g.alive(f)
	switch f.kind {
	case asking:
	case failure:
		return &unusable{&Failure{clean(f.payload)}}
	default:
		return errNoise
	}
	if s.window, err = readWindow(f.payload, int64(g.m.memory())<<20); err != nil {
		return err
	}
	if err = mon.wait(stopped, ""); err == nil {
		err = mon.save(s.state)
	}
	if err == nil {
		_, err = s.state.Seek(0, io.SeekStart)
	}
	if err != nil {
		return &unusable{err}
	}
	return nil
}

// resume has the machine go on from a snapshot.
func (m *Machine) resume(ctx context.Context, bin string, s *snapshot) ([]byte, error) {
	p, mon, err := m.controlled(s)
	if err != nil {
		return nil, err
	}
	defer mon.conn.Close()
	p.add("-incoming", "defer")
	m.tell("go on from a snapshot")
	g, err := m.start(bin, p)
	if err != nil {
		return nil, err
	}
	return g.watch(ctx, func() ([]byte, error) {
		err := mon.greet()
		if err == nil {
			if err = mon.load(s.state); err == nil {
				err = mon.resume()
			}
		}
		if err != nil {
			return nil, &unusable{err}
		}
		return g.listen()
	})
}
