//go:build linux

package bpf

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A driver is a generated program that stands between BPF_PROG_TEST_RUN and the
// programs under test. Per repeat it restores the packet from a map, takes the
// next one, and tail-calls the target in one slot of a program array.
//
// Why: a test run of XDP with repeat > 1 enters the program into the XDP
// dispatcher and waits for an RCU grace period, 15 to 35 ms a call, unless it is
// there already; the driver is attached once and stays. Base and head are
// reached over the same indirect jump, so no dispatcher order favours one. And a
// plain repeat feeds the program its own output packet, and one packet a
// thousand times.
//
// Note: attaching base and head themselves (attach-first) costs 25 to 44 ms a
// round and has an order; it is the fallback for programs that may not be
// tail-called.
//
// One driver serves many benchmarks of its kind in a session.
//
// Note: a packet map for each benchmark, in an array of maps, made the driver
// twice as slow, as lookups in inner maps are not inlined.
type driver struct {
	kind   driverKind
	prog   *ebpf.Program
	slots  *ebpf.Map // program array
	stateM *ebpf.Map
	buf    []byte // stateM, mapped
	device *attachments
	// packets of all benchmarks, each with its own span; nil: nothing is
	// restored. used is how many there are.
	packets *ebpf.Map
	used    int
}

// A driverKind is what programs and packets one driver fits.
type driverKind struct {
	typ    ebpf.ProgramType
	attach ebpf.AttachType
	flags  uint32
	room   int // bytes of the longest packet
}

// driverKindOf sorts packets into few sizes, so that few drivers do and short
// packets still lie close together.
func driverKindOf(spec *ebpf.ProgramSpec, packets [][]byte) driverKind {
	k := driverKind{typ: spec.Type, attach: spec.AttachType, flags: spec.Flags}
	if !restores(spec.Type) || len(packets) == 0 {
		return k
	}
	longest := 0
	for _, p := range packets {
		longest = max(longest, len(p))
	}
	for k.room = 120; k.room < longest; k.room = k.room*4 + 24 {
	}
	return k
}

// restores tells that programs of the type get a fresh packet in each repeat.
// The others cannot write packets, or only in ways that no driver can undo.
func restores(t ebpf.ProgramType) bool {
	return t == ebpf.XDP || t == ebpf.SchedCLS || t == ebpf.SchedACT
}

// driverSlots is the length of the program array. Slots are drawn at random for
// each round.
const driverSlots = 64

// The driver's state, shared with user space through mmap. Offsets in bytes.
const (
	stateOrigin = 0  // u64: address of the packet data at the first repeat; 0 before
	stateNow    = 8  // u64: scratch, turns packet pointers into numbers
	stateNext   = 16 // u32: index of the next packet
	stateFirst  = 20 // u32: where a call's packets begin
	stateEnd    = 24 // u32: and end
	stateSlot   = 28 // u32: target
	stateFailed = 32 // u32: repeats whose packet could not be restored
	stateMissed = 36 // u32: repeats whose tail call found no target
	stateSize   = 40
)

// packetHeader stands before each packet's bytes in the packet map: u32 length.
const packetHeader = 8

// tailCallable are the types that take a driver.
func tailCallable(t ebpf.ProgramType) bool {
	switch t {
	case ebpf.XDP, ebpf.SchedCLS, ebpf.SchedACT, ebpf.CGroupSKB, ebpf.SocketFilter,
		ebpf.LWTIn, ebpf.LWTOut, ebpf.LWTXmit, ebpf.LWTSeg6Local, ebpf.FlowDissector, ebpf.SkLookup, ebpf.Netfilter:
		return true
	}
	return false
}

// driverPackets is how many packets a driver holds at least.
const driverPackets = 4096

// newDriver loads a driver with room for at least n packets. XDP needs Linux
// 5.18 (bpf_xdp_store_bytes, 3f364222d032).
func newDriver(kind driverKind, n int) (*driver, error) {
	d := &driver{kind: kind, device: &attachments{}}
	if err := d.load(max(n, driverPackets)); err != nil {
		d.close()
		return nil, fmt.Errorf("driver for %s: %w", programs.TypeName(kind.typ), err)
	}
	return d, nil
}

func (d *driver) load(n int) error {
	var err error
	if d.slots, err = ebpf.NewMap(&ebpf.MapSpec{Name: "gate_slots", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: driverSlots}); err != nil {
		return err
	}
	if d.stateM, err = ebpf.NewMap(&ebpf.MapSpec{Name: "gate_state", Type: ebpf.Array, KeySize: 4, ValueSize: stateSize, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE}); err != nil {
		return err
	}
	if d.buf, err = unix.Mmap(d.stateM.FD(), 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the driver's state: %w", err)
	}
	var restore asm.Instructions
	if d.kind.room > 0 {
		if d.packets, err = ebpf.NewMap(&ebpf.MapSpec{
			Name: "gate_packets", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(packetHeader + d.kind.room), MaxEntries: uint32(n),
		}); err != nil {
			return fmt.Errorf("memory for %d packets: %w", n, err)
		}
		restore = skbRestore()
		if d.kind.typ == ebpf.XDP {
			restore = xdpRestore()
		}
	}
	if d.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gate_driver", Type: d.kind.typ, AttachType: d.kind.attach, Flags: d.kind.flags,
		License: "Dual BSD/GPL", Instructions: d.code(restore),
	}); err != nil {
		return err
	}
	if d.kind.typ == ebpf.XDP {
		// From here on the kernel keeps it in the XDP dispatcher.
		return d.device.attach(d.prog)
	}
	return nil
}

// fits tells whether the driver has room for n more packets.
func (d *driver) fits(n int) bool { return d.packets == nil || d.used+n <= int(d.packets.MaxEntries()) }

// add gives the driver a benchmark's packets and returns the index of the first.
func (d *driver) add(packets [][]byte) (first int, err error) {
	if d.packets == nil {
		return 0, nil
	}
	first = d.used
	v := make([]byte, packetHeader+d.kind.room)
	for i, p := range packets {
		clear(v)
		binary.NativeEndian.PutUint32(v, uint32(len(p)))
		copy(v[packetHeader:], p)
		if err := d.packets.Put(uint32(first+i), v); err != nil {
			return 0, err
		}
	}
	d.used += len(packets)
	return first, nil
}

// code is the whole driver. R6 holds the context, R7 the state, R9 the packet.
func (d *driver) code(restore asm.Instructions) asm.Instructions {
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMapValue(asm.R7, d.stateM.FD(), 0),
	}
	if d.packets != nil {
		insns = append(insns,
			// The next packet, round and round from first to end.
			asm.LoadMem(asm.R8, asm.R7, stateNext, asm.Word),
			asm.Mov.Reg(asm.R1, asm.R8),
			asm.Add.Imm(asm.R1, 1),
			asm.LoadMem(asm.R2, asm.R7, stateEnd, asm.Word),
			asm.JLT.Reg(asm.R1, asm.R2, "advance"),
			asm.LoadMem(asm.R1, asm.R7, stateFirst, asm.Word),
			asm.StoreMem(asm.R7, stateNext, asm.R1, asm.Word).WithSymbol("advance"),
			asm.StoreMem(asm.RFP, -4, asm.R8, asm.Word),
			asm.LoadMapPtr(asm.R1, d.packets.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "failed"),
			asm.Mov.Reg(asm.R9, asm.R0),
		)
		insns = append(insns, restore...)
		// The bytes. The length is bounded for the verifier; user space wrote it.
		// "Not 0" does not tell that of 6.1 "at least 1", though it does that of 6.12.
		insns = append(insns,
			asm.LoadMem(asm.R8, asm.R9, 0, asm.Word).WithSymbol("store"),
			asm.JLT.Imm(asm.R8, 1, "failed"),
			asm.JGT.Imm(asm.R8, int32(d.kind.room), "failed"),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Reg(asm.R3, asm.R9),
			asm.Add.Imm(asm.R3, packetHeader),
			asm.Mov.Reg(asm.R4, asm.R8),
		)
		insns = append(insns, d.store()...)
		insns = append(insns, asm.JNE.Imm(asm.R0, 0, "failed"))
	}
	insns = append(insns,
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, d.slots.FD()),
		asm.LoadMem(asm.R3, asm.R7, stateSlot, asm.Word),
		asm.FnTailCall.Call(),
	)
	insns = append(insns, count(stateMissed)...)
	insns = append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
	if d.packets != nil {
		failed := count(stateFailed)
		failed[0] = failed[0].WithSymbol("failed")
		insns = append(insns, failed...)
		insns = append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
	}
	return insns
}

func count(at int16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, at, asm.Word),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, at, asm.R1, asm.Word),
	}
}

func (d *driver) store() asm.Instructions {
	if d.kind.typ == ebpf.XDP {
		return asm.Instructions{asm.FnXdpStoreBytes.Call()}
	}
	const invalidateHash = 1 << 1 // BPF_F_INVALIDATE_HASH: else the flow hash of the last packet stays
	return asm.Instructions{asm.Mov.Imm(asm.R5, invalidateHash), asm.FnSkbStoreBytes.Call()}
}

// Offsets in struct xdp_md and struct __sk_buff (include/uapi/linux/bpf.h).
const (
	xdpData, xdpDataEnd, xdpDataMeta = 0, 4, 8

	skbLen, skbMark, skbVlanPresent, skbPriority, skbTCIndex = 0, 8, 20, 32, 44
	skbCB, skbTCClassID, skbData                             = 48, 72, 76
)

// xdpRestore puts metadata, head and tail of the frame back to where the first
// repeat found them. The address of the packet becomes a number by way of the
// state map, which the verifier allows with CAP_PERFMON.
func xdpRestore() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, xdpData, asm.Word),
		asm.LoadMem(asm.R3, asm.R6, xdpDataMeta, asm.Word),
		asm.StoreMem(asm.R7, stateNow, asm.R1, asm.DWord),
		asm.LoadMem(asm.R8, asm.R7, stateOrigin, asm.DWord),
		asm.LoadMem(asm.R2, asm.R7, stateNow, asm.DWord),
		asm.JNE.Imm(asm.R8, 0, "origin"),
		asm.StoreMem(asm.R7, stateOrigin, asm.R2, asm.DWord),
		asm.Mov.Reg(asm.R8, asm.R2),
		asm.Sub.Reg(asm.R8, asm.R2).WithSymbol("origin"), // how far the head has to move
		asm.Sub.Reg(asm.R1, asm.R3),                      // length of the metadata
		asm.JSLE.Imm(asm.R1, 0, "head"),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnXdpAdjustMeta.Call(),
		asm.JNE.Imm(asm.R0, 0, "failed"),
		asm.JEq.Imm(asm.R8, 0, "tail").WithSymbol("head"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.FnXdpAdjustHead.Call(),
		asm.JNE.Imm(asm.R0, 0, "failed"),
		asm.LoadMem(asm.R1, asm.R6, xdpData, asm.Word).WithSymbol("tail"),
		asm.LoadMem(asm.R3, asm.R6, xdpDataEnd, asm.Word),
		asm.Sub.Reg(asm.R3, asm.R1),
		asm.LoadMem(asm.R2, asm.R9, 0, asm.Word),
		asm.Sub.Reg(asm.R2, asm.R3),
		asm.JEq.Imm(asm.R2, 0, "store"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "failed"),
	}
}

// skbRestore takes headers that the program pushed off again (or puts popped
// ones back), so that the headroom is the same in every repeat, cuts or grows
// the tail, and clears the fields that a program may write.
func skbRestore() asm.Instructions {
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, skbVlanPresent, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "head"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSkbVlanPop.Call(),
		asm.LoadMem(asm.R1, asm.R6, skbData, asm.Word).WithSymbol("head"),
		asm.StoreMem(asm.R7, stateNow, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R7, stateNow, asm.DWord),
		asm.LoadMem(asm.R8, asm.R7, stateOrigin, asm.DWord),
		asm.JEq.Imm(asm.R8, 0, "origin"),
		asm.Sub.Reg(asm.R2, asm.R8), // negative: headers were pushed
		asm.JEq.Imm(asm.R2, 0, "tail"),
		// Further than any header: the kernel moved the packet to new memory.
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.Add.Imm(asm.R3, 256),
		asm.JGT.Imm(asm.R3, 512, "moved"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R3, 1), // BPF_ADJ_ROOM_MAC
		asm.Mov.Imm(asm.R4, 0),
		asm.FnSkbAdjustRoom.Call(), // what it cannot do, the tail does
		asm.Ja.Label("tail"),
		asm.LoadMem(asm.R2, asm.R7, stateNow, asm.DWord).WithSymbol("moved"),
		asm.StoreMem(asm.R7, stateOrigin, asm.R2, asm.DWord).WithSymbol("origin"),
		asm.LoadMem(asm.R1, asm.R6, skbLen, asm.Word).WithSymbol("tail"),
		asm.LoadMem(asm.R2, asm.R9, 0, asm.Word),
		asm.JEq.Reg(asm.R1, asm.R2, "fields"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "failed"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("fields"),
	}
	for _, at := range []int16{skbMark, skbPriority, skbTCIndex, skbCB, skbCB + 4, skbCB + 8, skbCB + 12, skbCB + 16, skbTCClassID} {
		insns = append(insns, asm.StoreMem(asm.R6, at, asm.R1, asm.Word))
	}
	return insns
}

// aim points the next call at a slot, and at packets first to end (exclusive).
func (d *driver) aim(slot, first, end int) {
	u32 := func(at uint32, v int) { binary.NativeEndian.PutUint32(d.buf[at:], uint32(v)) }
	binary.NativeEndian.PutUint64(d.buf[stateOrigin:], 0)
	u32(stateNext, first)
	u32(stateFirst, first)
	u32(stateEnd, end)
	u32(stateSlot, slot)
	u32(stateFailed, 0)
	u32(stateMissed, 0)
}

// check tells why the repeats of the last call did not all reach the target.
func (d *driver) check() error {
	if n := binary.NativeEndian.Uint32(d.buf[stateMissed:]); n > 0 {
		return fmt.Errorf("driver: %d tail calls found no program", n)
	}
	if n := binary.NativeEndian.Uint32(d.buf[stateFailed:]); n > 0 {
		return fmt.Errorf("driver: %d packets could not be restored after the program changed them; write `restore: none` to go without", n)
	}
	return nil
}

func (d *driver) close() {
	if d.buf != nil {
		_ = unix.Munmap(d.buf)
		d.buf = nil
	}
	_ = d.device.close()
	// Closing nil is defined in cilium/ebpf.
	for _, c := range []interface{ Close() error }{d.prog, d.slots, d.packets, d.stateM} {
		_ = c.Close()
	}
}
