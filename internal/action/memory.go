package action

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// MemoryLimit is what the measuring container may use, in bytes: three quarters of
// this host's memory, and at most 8 GiB, so that a map of a pull request's choice
// kills the container and not the runner. 0: unknown, no limit.
func MemoryLimit() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 1 && fields[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			return min(kb<<10/4*3, 8<<30)
		}
	}
	return 0
}
