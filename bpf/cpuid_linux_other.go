//go:build linux && !amd64

package bpf

// hypervisorSignature is nothing where there is no CPUID: firmware tables tell.
func hypervisorSignature() string { return "" }
