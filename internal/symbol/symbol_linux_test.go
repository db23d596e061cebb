package symbol

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

//go:noinline
func here() uint64 {
	pc, _, _, _ := runtime.Caller(0)
	return uint64(pc)
}

// TestSelf names an instruction of this program.
func TestSelf(t *testing.T) {
	users := NewUsers(Options{})
	defer users.Close()
	if err := users.Process(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	for _, pc := range []uint64{here() - 1, uint64(reflect.ValueOf(strings.Index).Pointer())} {
		frames := users.Frames(os.Getpid(), pc)
		f := runtime.FuncForPC(uintptr(pc))
		file, line := f.FileLine(uintptr(pc))
		last := frames[len(frames)-1]
		if last.Function != f.Name() || frames[0].File != file || frames[0].Line != line || last.Kind != KindUser {
			t.Errorf("%+v, and the runtime says %s at %s:%d", frames, f.Name(), file, line)
		}
	}
	t.Log(users.Doubts())
}
