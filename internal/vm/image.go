package vm

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Sizes in bytes beyond which a file is no kernel.
const (
	maxImage   = 256 << 20
	maxVmlinux = 1 << 30
)

// errNotKernel is that a file is no Linux kernel for x86.
var errNotKernel = errors.New("not a bzImage: no Linux kernel for x86 begins so")

// unpackImage returns what to boot of a bzImage: the ELF kernel inside, which
// starts at once, or the bzImage itself where that is packed in a way that we do
// not know or has no PVH entry. The machine would take 0.7 billion instructions to
// unpack it.
func unpackImage(image []byte) ([]byte, error) {
	payload, size, err := payloadOf(image)
	if err != nil {
		return nil, err
	}
	vmlinux, err := inflate(payload, size)
	if err != nil || !hasPVH(vmlinux) {
		return image, nil
	}
	return vmlinux, nil
}

// payloadOf finds the packed kernel in a bzImage, and its unpacked size.
// Offsets are those of the x86 boot protocol (Documentation/arch/x86/boot.rst).
func payloadOf(image []byte) (payload []byte, size uint32, err error) {
	const (
		setupSects    = 0x1f1
		magic         = 0x202 // "HdrS"
		version       = 0x206
		payloadOffset = 0x248 // from the protected-mode code on
		payloadLength = 0x24c
		end           = 0x250
		sector        = 512
	)
	if len(image) < end || string(image[magic:magic+4]) != "HdrS" {
		return nil, 0, errNotKernel
	}
	if v := binary.LittleEndian.Uint16(image[version:]); v < 0x208 {
		return nil, 0, fmt.Errorf("boot protocol %d.%02d: older than any kernel with eBPF", v>>8, v&0xff)
	}
	sects := int64(image[setupSects])
	if sects == 0 {
		sects = 4
	}
	start := (sects+1)*sector + int64(binary.LittleEndian.Uint32(image[payloadOffset:]))
	n := int64(binary.LittleEndian.Uint32(image[payloadLength:]))
	// The last four bytes are the unpacked size.
	if n < 8 || start+n > int64(len(image)) {
		return nil, 0, errors.New("the bzImage is cut short")
	}
	payload = image[start : start+n]
	return payload[:n-4], binary.LittleEndian.Uint32(payload[n-4:]), nil
}

// inflate unpacks a kernel as distributions pack them.
func inflate(payload []byte, size uint32) ([]byte, error) {
	if size > maxVmlinux {
		return nil, fmt.Errorf("%d MB unpacked", size>>20)
	}
	var r io.Reader
	in := bytes.NewReader(payload)
	switch {
	case bytes.HasPrefix(payload, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		z.Multistream(false)
		r = z
	case bytes.HasPrefix(payload, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(maxVmlinux))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	case bytes.HasPrefix(payload, []byte{0x02, 0x21, 0x4c, 0x18}):
		r = lz4.NewReader(in)
	default:
		return nil, errors.New("packed in an unknown way")
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, fmt.Errorf("unpack the kernel: %w", err)
	}
	return out, nil
}

// hasPVH tells that an ELF kernel can be started as it is: that it has the note
// XEN_ELFNOTE_PHYS32_ENTRY (CONFIG_PVH), by which QEMU finds the entry.
func hasPVH(vmlinux []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(vmlinux))
	if err != nil {
		return false
	}
	defer f.Close()
	const physEntry = 18
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxImage {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return false
		}
		for len(notes) >= 12 {
			name, desc := f.ByteOrder.Uint32(notes), f.ByteOrder.Uint32(notes[4:])
			typ := f.ByteOrder.Uint32(notes[8:])
			at := 12 + align4(int64(name))
			next := at + align4(int64(desc))
			if next > int64(len(notes)) {
				return false
			}
			if typ == physEntry && bytes.HasPrefix(notes[12:], []byte("Xen\x00")) {
				return true
			}
			notes = notes[next:]
		}
	}
	return false
}

func align4(n int64) int64 { return (n + 3) &^ 3 }
