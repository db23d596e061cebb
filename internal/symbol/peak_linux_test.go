package symbol

import (
	"fmt"
	"os"
	"strings"
)

// peak is the most that this process ever had in memory, in KB.
func peak() (kb int) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(rest, &kb)
		}
	}
	return kb
}
