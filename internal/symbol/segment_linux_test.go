package symbol

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// TestWhere holds that the file has at the place that is told what the process has at the address.
func TestWhere(t *testing.T) {
	u := NewUsers(Options{})
	defer u.Close()
	pc := uint64(reflect.ValueOf(strings.Repeat).Pointer())
	if err := u.Process(os.Getpid()); err != nil {
		t.Skip(err)
	}
	u.Frames(os.Getpid(), pc)
	s, at := u.Where(os.Getpid(), pc)
	if s == nil || at < s.Start || at >= s.Limit {
		t.Fatalf("%#x of %+v", at, s)
	}
	if again, _ := u.Where(os.Getpid(), pc+1); again != s {
		t.Error("the same code is two segments")
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var there [32]byte
	if _, err := f.ReadAt(there[:], int64(at-s.Start+s.Offset)); err != nil {
		t.Fatal(err)
	}
	code := reflect.ValueOf(strings.Repeat).Pointer()
	if here := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&code))), len(there)); !bytes.Equal(here, there[:]) {
		t.Errorf("%x in memory, %x in %s", here, there, s.File)
	}
	if s, _ := u.Where(os.Getpid(), 16); s != nil {
		t.Errorf("nothing is %+v", s)
	}
}

// TestSegmentsOfPrograms takes the build id that others read, too.
func TestSegmentsOfPrograms(t *testing.T) {
	file, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("no readelf")
	}
	out, err := exec.Command(file, "-n", file).Output()
	if err != nil {
		t.Skip(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	o := &object{path: file, data: f, close: f.Close, limit: 1 << 28, kind: KindUser, doubts: &doubts{}}
	defer f.Close()
	o.load()
	if len(o.segments) == 0 {
		t.Fatal("a program without code")
	}
	for _, s := range o.segments {
		if _, err := hex.DecodeString(s.BuildID); err != nil || strings.Contains(string(out), "Build ID") && !strings.Contains(string(out), "Build ID: "+s.BuildID) || s.Start%page != 0 || s.Limit%page != 0 {
			t.Errorf("%+v, readelf says %s", s, out)
		}
	}
	kept := o.segments
	o.forget()
	o.load()
	if &o.segments[0] != &kept[0] {
		t.Error("segments are others after they were forgotten")
	}
}
