//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// events has a program for each kind of map: it puts in the first four bytes of
// the packet, and so many zero bytes behind them.
const events = `
struct event { __u32 n; char pad[%d]; };
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __type(value, struct event); __uint(max_entries, 16); } queue SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_STACK); __type(value, struct event); __uint(max_entries, 16); } stack SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4); __uint(value_size, 4); } perf SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __type(key, __u32); __type(value, struct event); __uint(max_entries, 16); } hash SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __type(key, __u32); __type(value, struct event); __uint(max_entries, 16); } lru SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __type(key, __u32); __type(value, __u64); __uint(max_entries, 16); } percpu SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __type(key, __u32); __type(value, __u64); __uint(max_entries, 1); } array SEC(".maps");

static __always_inline int read(struct xdp_md *c, struct event *e) {
	void *data = (void *)(long)c->data, *end = (void *)(long)c->data_end;
	if (data + 4 > end)
		return -1;
	__builtin_memset(e, 0, sizeof *e);
	e->n = *(__u32 *)data;
	return 0;
}
#define PROG(name, put) SEC("xdp") int name##_prog(struct xdp_md *c) { \
	struct event e; if (read(c, &e)) return XDP_ABORTED; return put ? XDP_ABORTED : XDP_PASS; }
PROG(queue, bpf_map_push_elem(&queue, &e, 0))
PROG(stack, bpf_map_push_elem(&stack, &e, 0))
PROG(ring, bpf_ringbuf_output(&ring, &e, sizeof e, 0))
PROG(perf, bpf_perf_event_output(c, &perf, BPF_F_CURRENT_CPU, &e, sizeof e))
PROG(hash, bpf_map_update_elem(&hash, &e.n, &e, 0))
PROG(lru, bpf_map_update_elem(&lru, &e.n, &e, 0))
SEC("xdp") int percpu_prog(struct xdp_md *c) {
	struct event e; if (read(c, &e)) return XDP_ABORTED;
	__u64 v = e.n; return bpf_map_update_elem(&percpu, &e.n, &v, 0) ? XDP_ABORTED : XDP_PASS;
}
SEC("xdp") int array_prog(struct xdp_md *c) { __u32 k = 0; return bpf_map_lookup_elem(&array, &k) ? XDP_PASS : XDP_ABORTED; }
// A reserved record that is given back must not be seen.
SEC("xdp") int discard_prog(struct xdp_md *c) {
	struct event e; if (read(c, &e)) return XDP_ABORTED;
	struct event *r = bpf_ringbuf_reserve(&ring, sizeof e, 0);
	if (!r) return XDP_ABORTED;
	*r = e;
	if (e.n & 1) bpf_ringbuf_discard(r, 0); else bpf_ringbuf_submit(r, 0);
	return XDP_PASS;
}
`

// pusher runs a program that puts a number into a map.
type pusher struct {
	t *testing.T
	l *Loaded
}

func (p pusher) push(numbers ...uint32) {
	p.t.Helper()
	for _, n := range numbers {
		packet := make([]byte, 64)
		binary.NativeEndian.PutUint32(packet, n)
		if v, err := p.l.Program.Run(&ebpf.RunOptions{Data: packet}); err != nil || v != 2 {
			p.t.Fatalf("push %d: answers %d, %v", n, v, err)
		}
	}
}

func collect(t *testing.T, d drainer) (got []uint32) {
	t.Helper()
	err := d.empty(func(b []byte) {
		if len(b) < 4 {
			t.Fatalf("collected %x", b)
		}
		if rest := bytes.Trim(b[4:], "\x00"); len(rest) > 0 && !bytes.Contains(b[4:], b[:4]) {
			t.Errorf("collected %x: more than was pushed", b)
		}
		got = append(got, binary.NativeEndian.Uint32(b))
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestDrain pushes, and wants back what was pushed, nothing of what was drained
// before, and the map as empty as it was.
func TestDrain(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun)
	testkernel.NoLeaks(t)
	for _, size := range []int{0, 8, 60, 300} { // 304: a queue's values are drained by system calls
		o := compileForTest(t, fmt.Sprintf(events, size))
		for _, tt := range []struct {
			kind, prog string
			want       []uint32 // of 5, 3, 4
		}{
			{"queue", "queue_prog", []uint32{5, 3, 4}},
			{"stack", "stack_prog", []uint32{4, 3, 5}},
			{"ring", "ring_prog", []uint32{5, 3, 4}},
			{"ring", "discard_prog", []uint32{4}},
			{"perf", "perf_prog", []uint32{3, 4, 5}}, // a ring a CPU, and the test may move
			{"hash", "hash_prog", []uint32{3, 4, 5}},
			{"lru", "lru_prog", []uint32{3, 4, 5}},
			{"percpu", "percpu_prog", []uint32{3, 4, 5}},
		} {
			t.Run(fmt.Sprintf("%s of %d bytes", tt.prog, 4+size), func(t *testing.T) {
				l, err := o.Load(tt.prog, LoadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				d, err := l.drainer(tt.kind)
				if err != nil {
					t.Fatal(err)
				}
				defer d.close()
				p := pusher{t, l}
				if got := collect(t, d); len(got) != 0 {
					t.Errorf("collected %v of an empty map", got)
				}
				for range 30 { // round the ring, and past what a full map holds
					p.push(5, 3, 4)
					got := collect(t, d)
					if tt.kind == "perf" {
						slices.Sort(got)
					}
					if !slices.Equal(got, tt.want) {
						t.Fatalf("collected %v, want %v", got, tt.want)
					}
					p.push(9, 8, 7, 6, 2, 1)
					if err := d.empty(nil); err != nil {
						t.Fatal(err)
					}
				}
				if got := collect(t, d); len(got) != 0 {
					t.Errorf("collected %v after draining", got)
				}
			})
		}
	}
}

// TestDrainFull drains a queue that is full to the last entry.
func TestDrainFull(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun)
	testkernel.NoLeaks(t)
	l, err := compileForTest(t, fmt.Sprintf(events, 0)).Load("queue_prog", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := newQueueDrainer(l.coll.Maps["queue"])
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if d.prog == nil {
		t.Log("this kernel has no bpf_loop: drained by system calls")
	}
	p := pusher{t, l}
	for range 3 {
		for n := range uint32(16) {
			p.push(n)
		}
		if err := d.empty(nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := collect(t, d); len(got) != 0 {
		t.Errorf("%v is left", got)
	}
}

// TestDrainRefills is that a drained hash map holds again what the config says.
func TestDrainRefills(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun)
	testkernel.NoLeaks(t)
	o := compileForTest(t, fmt.Sprintf(events, 0))
	err := o.Configure([]bench.Program{{Name: "hash_prog", Maps: []bench.MapSetup{{
		Name: "hash", Entries: []bench.Entry{{Key: val(bench.Range{First: 100, Last: 102}), Value: val(fieldsOf("n", bench.Variable{Name: "key"}))}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := o.Load("hash_prog", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := l.drainer("hash")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	p := pusher{t, l}
	for range 3 {
		p.push(7)
		if got, want := collect(t, d), []uint32{7, 100, 101, 102}; !slices.Equal(got, want) {
			t.Errorf("collected %v, want %v", got, want)
		}
	}
}

func TestDrainRefuses(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	l, err := compileForTest(t, fmt.Sprintf(events, 0)).Load("array_prog", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]string{"array": "cannot be emptied", "queue": "it uses array"} {
		if d, err := l.drainer(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", name, d, err, want)
		}
	}
}
