// Package vm boots a Linux kernel in a virtual machine that counts instructions,
// and runs one program in it.
//
// The machine is QEMU without hardware virtualisation (TCG), started with
// -icount shift=0: its clock advances one nanosecond with every instruction of the
// guest, and stands still for nothing else. A time that the guest measures is a
// number of executed instructions, whatever the host is and however busy. What an
// instruction is there, docs/kernels.md tells.
//
// The flow, in order:
//
//  1. [FindKernel] turns "6.12" or the path of a bzImage into a [Kernel]: from
//     the cache, from /boot, or from a package that apt fetches and checks.
//  2. A [Machine] is booted with a few files ([Files]) in an initramfs that only
//     exists in memory. One of them is the guest's init: a static executable,
//     most often the one that is running.
//  3. In the guest, [Enter] mounts what a Linux program expects and opens the
//     [Port], a serial port to the host. What goes through it are frames:
//     progress, output, one result.
//  4. With a directory for snapshots, the machine stands still there, and its memory
//     and state are stored. This run and all later ones of the same kernel, init and
//     QEMU go on from that, with the files written into its memory.
//  5. On the host [Machine.Boot] reads the frames. It ends a guest that stops to
//     make progress, and tells one that panicked, by the last lines of its console.
//
// A snapshot is taken before anything that is not ours is in the guest, and each run
// has a copy of it.
//
// The guest may run anybody's programs as root, so nothing that it says is
// trusted: frames are bounded, text is cleaned, and what the result means is for
// the caller to check. QEMU runs in its own seccomp sandbox, and ends with us.
//
// It measures nothing and knows no eBPF.
//
// Note: QEMU's own snapshots (savevm) need a disk image. Here the memory is a file of
// ours, which QEMU leaves out of the state that it writes (x-ignore-shared).
//
// Note: github.com/lmb/vimto is the model of "the executable is its own init". It
// needs KVM, and containers as kernels; here both would be in the way.
package vm
