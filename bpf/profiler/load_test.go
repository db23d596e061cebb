//go:build linux

package profiler

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envLoad makes the test binary one of the loads, which never end by themselves.
const envLoad = "GATE_TEST_LOAD"

var loads = map[string]func(){
	"spin":     func() { ready(); spin() },
	"nap":      func() { ready(); nap() },
	"parent":   func() { parent(unix.SIGKILL) },
	"outlived": func() { parent(0) }, // by its child, which goes with the process group
	"threads": func() {
		var all sync.WaitGroup
		for range manyThreads {
			all.Add(1)
			go func() {
				runtime.LockOSThread()
				all.Done()
				nap()
			}()
		}
		all.Wait()
		ready()
		select {}
	},
}

const manyThreads = 2000

// TestMain lets the test binary be a load.
func TestMain(m *testing.M) {
	if load := os.Getenv(envLoad); load != "" {
		loads[load]()
	}
	os.Exit(m.Run())
}

// parent has a child that spins, and gets a signal when its parent ends.
func parent(sig unix.Signal) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), envLoad+"=spin")
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: sig}
	c.Stdout = os.Stdout
	runtime.LockOSThread()
	if err := c.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = c.Wait()
}

func ready() { fmt.Println("ready") }

var sink uint64

//go:noinline
func spin() {
	// In registers: the race detector's own functions would be what is busy.
	sum := uint64(0)
	for i := uint64(1); ; i++ {
		if sum += i*i | 1; sum == 0 {
			sink = i
		}
	}
}

//go:noinline
func nap() {
	for {
		ts := unix.NsecToTimespec(int64(3 * time.Millisecond))
		_ = unix.Nanosleep(&ts, nil)
	}
}

// startLoad starts a load and waits until it is at work.
func startLoad(t testing.TB, name string) (pid int) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), envLoad+"="+name)
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		_ = c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the load %s said %q, %v", name, line, err)
	}
	return c.Process.Pid
}
