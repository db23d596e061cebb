package bpf

import (
	"bufio"
	"compress/gzip"
	"io"
	"strings"
)

// readKconfig reads the options of a kernel configuration, compressed or not.
// What is not set is not in it. A damaged file gives what could be read.
func readKconfig(r io.Reader) map[string]string {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil
		}
		b = bufio.NewReader(io.LimitReader(z, maxKconfig))
	}
	config := make(map[string]string)
	for s := bufio.NewScanner(b); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), "="); ok && strings.HasPrefix(key, "CONFIG_") {
			config[key] = strings.Trim(value, `"`)
		}
	}
	return config
}
