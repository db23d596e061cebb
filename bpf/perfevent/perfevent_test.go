//go:build linux

package perfevent

import "testing"

func TestOnlineCPUs(t *testing.T) {
	cpus, err := OnlineCPUs()
	if err != nil || len(cpus) == 0 {
		t.Errorf("%v, %v", cpus, err)
	}
}
