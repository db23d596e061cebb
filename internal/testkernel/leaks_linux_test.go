package testkernel

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestNoLeaks leaks one thing of each kind and wants it told.
func TestNoLeaks(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 100 * time.Millisecond

	for _, tt := range []struct {
		name  string
		needs []Feature
		leak  func(t *testing.T) (undo func())
		want  string
	}{
		{name: "nothing", leak: func(*testing.T) func() { return func() {} }},
		{name: "file", want: "descriptor /", leak: func(t *testing.T) func() {
			f, err := os.Create(filepath.Join(t.TempDir(), "leak"))
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = f.Close() }
		}},
		{name: "program", needs: []Feature{BPF}, want: "bpf-prog prog_type 6 prog_id", leak: func(t *testing.T) func() {
			p, err := load(ebpf.ProgramSpec{Type: ebpf.XDP}, 2)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = p.Close() }
		}},
		{name: "interfaces", needs: []Feature{Net}, want: "interface tkleak0\nleft behind: interface tkleak1", leak: func(t *testing.T) func() {
			v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "tkleak0"}, PeerName: "tkleak1"}
			if err := netlink.LinkAdd(v); err != nil {
				t.Fatal(err)
			}
			return func() { _ = netlink.LinkDel(v) }
		}},
		{name: "thread", needs: []Feature{Net}, want: "thread in net:[", leak: func(t *testing.T) func() {
			stop, in := make(chan struct{}), make(chan error)
			go func() {
				runtime.LockOSThread()
				in <- unix.Unshare(unix.CLONE_NEWNET)
				<-stop
			}()
			if err := <-in; err != nil {
				t.Fatal(err)
			}
			return func() { close(stop) }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			Require(t, tt.needs...)
			if len(tt.needs) > 0 && tt.needs[0] == Net {
				NetNS(t)
			}
			// Called on this goroutine, which NetNS has moved.
			r := &recorder{TB: t}
			r.fatal = func() { t.Fatal(r.failed) }
			NoLeaks(r)
			undo := tt.leak(t)
			r.finish()
			undo()
			lines := strings.Count(tt.want, "\n")
			if tt.want != "" {
				lines++
			}
			if strings.Count(r.failed, "\n") != lines || !strings.Contains(r.failed, tt.want) {
				t.Errorf("told %q, want %d lines with %q", r.failed, lines, tt.want)
			}
		})
	}
}

func TestNetNS(t *testing.T) {
	Require(t, Net)
	NoLeaks(t)
	here := func() string {
		ns, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	home := here()
	t.Run("inside", func(t *testing.T) {
		NetNS(t)
		if here() == home {
			t.Error("still in the host's network namespace")
		}
		if found, err := netlink.LinkList(); err != nil || len(found) == 0 {
			t.Errorf("links %v, %v", found, err)
		}
	})
	if here() != home {
		t.Error("not back in the host's network namespace")
	}
}
