module github.com/org/ebpf-bench-gate

go 1.25.0
