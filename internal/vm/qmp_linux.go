package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A monitor is QEMU's control (QMP, https://www.qemu.org/docs/master/interop/qmp-spec.html).
// It is closed before anything of a stranger's is in the machine.
type monitor struct {
	conn *net.UnixConn
	in   *json.Decoder
	seen []string // events that nobody waited for yet
}

// patience is how long QEMU may take to begin to answer, or to write or read its state
// of a few dozen KB. The guest's boot is not in it.
const patience = idleStall

// newMonitor returns a monitor and the end of it that is QEMU's.
func newMonitor() (*monitor, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "monitor"), os.NewFile(uintptr(fds[1]), "monitor")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	const most = 1 << 20 // bytes that it may say at all
	return &monitor{conn: conn.(*net.UnixConn), in: json.NewDecoder(io.LimitReader(conn, most))}, theirs, nil
}

// A message is an answer, an event or, once, a greeting.
type message struct {
	Event string
	Data  struct{ Status string }
	Error *struct{ Desc string }
	// Return is there in an answer.
	Return json.RawMessage
}

// run runs a command, and hands a file along with it if there is one.
func (m *monitor) run(command string, arguments any, file *os.File) error {
	b, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	_ = m.conn.SetDeadline(time.Now().Add(patience))
	if _, _, err := m.conn.WriteMsgUnix(b, rights, nil); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		a, err := m.next()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", command, err)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", command, clean([]byte(a.Error.Desc)))
		case a.Return != nil:
			return nil
		}
	}
}

// wait waits for one of the events.
func (m *monitor) wait(last, failed string) error {
	_ = m.conn.SetDeadline(time.Now().Add(patience))
	for {
		for len(m.seen) > 0 {
			e := m.seen[0]
			m.seen = m.seen[1:]
			switch e {
			case last:
				return nil
			case failed:
				return errors.New(e)
			}
		}
		if _, err := m.next(); err != nil {
			return fmt.Errorf("wait for %s: %w", last, err)
		}
	}
}

func (m *monitor) next() (message, error) {
	var a message
	if err := m.in.Decode(&a); err != nil {
		return a, err
	}
	if a.Event != "" {
		m.seen = append(m.seen, a.Event+" "+a.Data.Status)
	}
	return a, nil
}

// Events.
const (
	stopped   = "STOP "
	moved     = "MIGRATION completed"
	unmovable = "MIGRATION failed"
)

// greet begins the talk. Of the machine's state its memory is no part, since it is a
// file of ours.
func (m *monitor) greet() error {
	if err := m.run("qmp_capabilities", struct{}{}, nil); err != nil {
		return err
	}
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	return m.run("migrate-set-capabilities", map[string]any{
		"capabilities": []capability{{"x-ignore-shared", true}, {"events", true}},
	}, nil)
}

// save writes the state of a machine that has stopped.
func (m *monitor) save(state *os.File) error { return m.move("migrate", state) }

// load reads it in a machine that waits for it.
func (m *monitor) load(state *os.File) error { return m.move("migrate-incoming", state) }

func (m *monitor) move(how string, state *os.File) error {
	const name = "state"
	if err := m.run("getfd", map[string]string{"fdname": name}, state); err != nil {
		return err
	}
	if err := m.run(how, map[string]string{"uri": "fd:" + name}, nil); err != nil {
		return err
	}
	return m.wait(moved, unmovable)
}

// resume lets the machine go on, and ends the talk.
func (m *monitor) resume() error {
	return errors.Join(m.run("cont", struct{}{}, nil), m.conn.Close())
}
