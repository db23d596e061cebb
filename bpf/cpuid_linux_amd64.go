package bpf

import "encoding/binary"

// cpuid executes the CPUID instruction, sub-leaf 0.
func cpuid(leaf uint32) (eax, ebx, ecx, edx uint32)

// hypervisorSignature is what a hypervisor calls itself in CPUID leaf
// 0x40000000, such as "KVMKVMKVM"; empty on bare metal (bit 31 of ECX of leaf 1).
func hypervisorSignature() string {
	if _, _, ecx, _ := cpuid(1); ecx>>31 == 0 {
		return ""
	}
	_, b, c, d := cpuid(0x40000000)
	var s [12]byte
	binary.LittleEndian.PutUint32(s[0:], b)
	binary.LittleEndian.PutUint32(s[4:], c)
	binary.LittleEndian.PutUint32(s[8:], d)
	return string(s[:])
}
