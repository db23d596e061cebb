package symbol

import (
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openMapped opens what a process has mapped: the file itself where the kernel lets us, which also
// works for what was deleted or replaced, else what lies at its path in the process's root.
func openMapped(dir string, m *mapping) *os.File {
	link := fmt.Sprintf("%s/map_files/%x-%x", dir, m.start, m.end)
	// Opening a device does things; looking at it does not.
	if info, err := os.Stat(link); err == nil {
		if !info.Mode().IsRegular() {
			return nil
		}
		if f, err := os.OpenFile(link, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			return f
		}
	}
	if strings.HasSuffix(m.path, " (deleted)") {
		return nil
	}
	root, err := os.OpenFile(dir+"/root", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		if root, err = os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			return nil
		}
	}
	defer root.Close()
	f, err := openIn(root, m.path)
	if err != nil {
		return nil
	}
	// Whatever lies there now is not what is mapped unless it is the same file.
	if stat, ok := regular(f); !ok || stat.Ino != m.inode {
		f.Close()
		return nil
	}
	return f
}

// openIn opens a regular file below a root, through links that stay in there. Nothing that blocks
// or acts when it is opened is opened. Linux 5.6.
func openIn(root *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(root.Fd()), name, &how)
	if err != nil {
		return nil, err
	}
	found := os.NewFile(uintptr(fd), name)
	defer found.Close()
	if _, ok := regular(found); !ok {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

func regular(f *os.File) (stat unix.Stat_t, ok bool) {
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return stat, false
	}
	return stat, stat.Mode&unix.S_IFMT == unix.S_IFREG
}

// openDebugFile looks in a process's root and in ours.
func openDebugFile(root *os.File, name string) (io.ReaderAt, int64, func() error) {
	if !path.IsAbs(name) {
		return nil, 0, nil
	}
	own, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, 0, nil
	}
	defer own.Close()
	for _, dir := range []*os.File{root, own} {
		if dir == nil {
			continue
		}
		if f, err := openIn(dir, name); err == nil {
			if stat, ok := regular(f); ok {
				return f, stat.Size, f.Close
			}
			f.Close()
		}
	}
	return nil, 0, nil
}
