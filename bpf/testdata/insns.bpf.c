// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Programs whose executed instructions are known by the number of calls of their
// functions. N is the last byte of the packet's source address.
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/version.h>
#include <bpf/bpf_helpers.h>

struct locked {
	struct bpf_spin_lock lock;
	__u32 even, odd;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct locked);
} guarded SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} four SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline int last(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 30 > end)
		return 0;
	return data[29];
}

static __attribute__((noinline)) int step(int n)
{
	asm volatile("%0 += 1" : "+r"(n));
	return n;
}

SEC("xdp")
int xdp_sub(struct xdp_md *ctx)
{
	int n = last(ctx), sum = 0;

	for (int i = 0; i < 16 && i < n; i++)
		sum = step(sum);
	return sum;
}

static long once(__u32 i, void *sum)
{
	*(int *)sum += i;
	return 0;
}

SEC("xdp")
int xdp_loop(struct xdp_md *ctx)
{
	int sum = 0;

	bpf_loop(last(ctx), once, &sum, 0);
	return sum & 1;
}

static long each(void *map, __u32 *key, __u64 *value, void *sum)
{
	if (*key & 1)
		*(int *)sum += *key;
	return 0;
}

SEC("xdp")
int xdp_each(struct xdp_md *ctx)
{
	int sum = 0;

	bpf_for_each_map_elem(&four, each, &sum, 0);
	return sum & 1;
}

static long until_three(void *map, __u32 *key, __u64 *value, void *sum)
{
	*(int *)sum += 1;
	return *key == 3;
}

// How far it gets depends on the order of the hash map.
SEC("xdp")
int xdp_order(struct xdp_md *ctx)
{
	__u64 one = 1;
	int sum = 0;

	// A number on the stack, as the key has to be, is none that 6.12 counts by.
	for (__u32 i = 0; i < 48; i++) {
		__u32 key = i;

		asm volatile("" : "+r"(i));
		bpf_map_update_elem(&seen, &key, &one, BPF_ANY);
	}
	bpf_for_each_map_elem(&seen, until_three, &sum, 0);
	return sum & 1;
}

SEC("xdp")
int xdp_lock(struct xdp_md *ctx)
{
	__u32 zero = 0;
	int n = last(ctx);
	struct locked *v = bpf_map_lookup_elem(&guarded, &zero);

	if (!v)
		return XDP_ABORTED;
	bpf_spin_lock(&v->lock);
	if (n & 1)
		v->odd++;
	else
		v->even += 2;
	bpf_spin_unlock(&v->lock);
	return XDP_PASS;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
struct bpf_iter_num {
	__u64 __opaque[1];
} __attribute__((aligned(8)));
#endif

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym __weak;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym __weak;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym __weak;

SEC("xdp")
int xdp_iter(struct xdp_md *ctx)
{
	struct bpf_iter_num it;
	int sum = 0, *v;

	bpf_iter_num_new(&it, 0, last(ctx));
	while ((v = bpf_iter_num_next(&it)))
		sum = step(sum);
	bpf_iter_num_destroy(&it);
	return sum & 1;
}

int xdp_callee(struct xdp_md *ctx);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, int(void *));
} jumps SEC(".maps") = {
	.values = { [1] = (void *)&xdp_callee },
};

SEC("xdp")
int xdp_tail(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &jumps, last(ctx));
	return XDP_DROP;
}

SEC("xdp")
int xdp_callee(struct xdp_md *ctx)
{
	return step(XDP_DROP);
}

// Adds what it sees to a map: the second pass finds it there.
SEC("xdp")
int xdp_stateful(struct xdp_md *ctx)
{
	__u32 key = last(ctx);
	__u64 one = 1, *n = bpf_map_lookup_elem(&seen, &key);

	if (n)
		return XDP_PASS;
	bpf_map_update_elem(&seen, &key, &one, BPF_ANY);
	return XDP_PASS;
}

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 16);
	__type(value, __u32);
} backlog SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} in1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct inner);
} outer SEC(".maps") = {
	.values = { &in1 },
};

// One of each, and a lookup in one of two maps.
SEC("xdp")
int xdp_maps(struct xdp_md *ctx)
{
	__u32 key = 0, v = 7;
	__u64 one = 1;
	void *map = bpf_map_lookup_elem(&outer, &key), *either = &four;

	bpf_map_lookup_elem(&four, &key);
	if (map)
		bpf_map_lookup_elem(map, &key);
	bpf_map_update_elem(&seen, &key, &one, BPF_ANY);
	bpf_map_delete_elem(&seen, &key);
	for (int i = 0; i < 3; i++)
		bpf_map_push_elem(&backlog, &v, BPF_ANY);
	bpf_map_pop_elem(&backlog, &v);
	for (int i = 0; i < 2; i++)
		bpf_ringbuf_output(&events, &v, sizeof(v), 0);
	if (last(ctx) & 1)
		either = &guarded;
	asm volatile("" : "+r"(either));
	bpf_map_lookup_elem(either, &key);
	return XDP_PASS;
}

SEC("xdp")
int xdp_random(struct xdp_md *ctx)
{
	int sum = 0;
	__u32 n = bpf_get_prandom_u32() & 0xfff;

	for (__u32 i = 0; i < 0xfff && i < n; i++)
		asm volatile("%0 += 1" : "+r"(sum));
	return XDP_PASS;
}

// Tells the time to nobody, and looks at one packet in four.
SEC("xdp")
int xdp_sampled(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&four, &key, &now, BPF_ANY);
	if ((bpf_get_prandom_u32() & 3) == 0)
		return step(XDP_DROP);
	return XDP_PASS;
}

static __attribute__((noinline)) __u64 clock(void)
{
	return bpf_ktime_get_ns();
}

// Does more where a microsecond's lowest bits say so; the random number decides
// nothing.
SEC("xdp")
int xdp_late(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 chance = bpf_get_prandom_u32(), late = clock();

	bpf_map_update_elem(&four, &key, &chance, BPF_ANY);
	if ((late >> 4 & 3) == 0)
		return step(XDP_DROP);
	return XDP_PASS;
}

// How often it is called back is decided by no branch.
SEC("xdp")
int xdp_often(struct xdp_md *ctx)
{
	int sum = 0;

	bpf_loop(bpf_get_prandom_u32() & 63, once, &sum, 0);
	return XDP_PASS;
}

// Answers at random.
SEC("xdp")
int xdp_whim(struct xdp_md *ctx)
{
	return bpf_get_prandom_u32();
}

// Drops one packet in a thousand, on more instructions than it lets pass on.
SEC("xdp")
int xdp_rarely(struct xdp_md *ctx)
{
	int sum = 0;

	if (bpf_get_prandom_u32() % 1000)
		return XDP_PASS;
	for (int i = 0; i < 500; i++)
		asm volatile("%0 += 1" : "+r"(sum));
	return XDP_DROP;
}

// Looks at the clock, and lets a hundred packets pass.
SEC("xdp")
int xdp_hundred(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 *n = bpf_map_lookup_elem(&four, &key);

	if (!n || bpf_ktime_get_ns() == 0)
		return XDP_ABORTED;
	return ++*n > 100 ? XDP_DROP : XDP_PASS;
}

struct timed {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timed);
} timers SEC(".maps");

static int tick(void *map, int *key, struct timed *value)
{
	return 0;
}

SEC("xdp")
int xdp_timer(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct timed *t = bpf_map_lookup_elem(&timers, &zero);

	if (!t)
		return XDP_ABORTED;
	bpf_timer_init(&t->timer, &timers, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&t->timer, tick);
	return XDP_PASS;
}

static int tock(void *map, int *key, struct timed *value)
{
	step(*key);
	return 0;
}

// The callback runs soon, and by itself.
SEC("xdp")
int xdp_ticking(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct timed *t = bpf_map_lookup_elem(&timers, &zero);

	if (!t)
		return XDP_ABORTED;
	bpf_timer_init(&t->timer, &timers, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&t->timer, tock);
	bpf_timer_start(&t->timer, 0, 0);
	return XDP_PASS;
}

SEC("syscall")
int sys_loop(void *ctx)
{
	int sum = 0;

	bpf_loop(7, once, &sum, 0);
	return sum;
}

extern void bpf_throw(__u64 cookie) __ksym __weak;

static __attribute__((noinline)) int maybe(int n)
{
	if (n & 1)
		bpf_throw(n);
	return n;
}

SEC("xdp")
int xdp_throw(struct xdp_md *ctx)
{
	return maybe(last(ctx)) + 2;
}

struct bpf_cpumask {
	int opaque;
} __attribute__((preserve_access_index));

// clang 14 loses the tag of a pointer that goes to a struct itself.
typedef struct bpf_cpumask cpumask;

struct holder {
	cpumask __attribute__((btf_type_tag("kptr"))) *mask;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct holder);
} kept SEC(".maps");

extern struct bpf_cpumask *bpf_cpumask_create(void) __ksym __weak;
extern void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym __weak;

// A pointer of the kernel's, kept in a map, in a program that may sleep.
SEC("syscall")
int sys_kptr(void *ctx)
{
	__u32 zero = 0;
	struct holder *h = bpf_map_lookup_elem(&kept, &zero);
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return 1;
	if (!h) {
		bpf_cpumask_release(mask);
		return 2;
	}
	mask = bpf_kptr_xchg(&h->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return step(3);
}

extern int bpf_dynptr_from_xdp(struct xdp_md *x, __u64 flags, struct bpf_dynptr *ptr) __ksym __weak;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, __u32 at, void *buffer, __u32 size) __ksym __weak;

SEC("xdp")
int xdp_dynptr(struct xdp_md *ctx)
{
	struct bpf_dynptr packet;
	__u8 room[4], *source;

	if (bpf_dynptr_from_xdp(ctx, 0, &packet))
		return XDP_ABORTED;
	source = bpf_dynptr_slice(&packet, 26, room, sizeof(room));
	if (!source)
		return XDP_DROP;
	for (int i = 0; i < 8 && i < source[3]; i++)
		step(i);
	return XDP_PASS;
}

struct bpf_wq {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct queued {
	struct bpf_wq wq;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queued);
} queue SEC(".maps");

extern int bpf_wq_init(struct bpf_wq *wq, void *map, unsigned int flags) __ksym __weak;
extern int bpf_wq_start(struct bpf_wq *wq, unsigned int flags) __ksym __weak;
extern int bpf_wq_set_callback_impl(struct bpf_wq *wq, int (*callback)(void *, int *, void *), unsigned int flags, void *aux) __ksym __weak;

static int work(void *map, int *key, void *value)
{
	step(*key);
	return 0;
}

// A work queue runs its callback in a thread of the kernel's.
SEC("syscall")
int sys_queue(void *ctx)
{
	__u32 zero = 0;
	struct queued *q = bpf_map_lookup_elem(&queue, &zero);

	if (!q)
		return 1;
	bpf_wq_init(&q->wq, &queue, 0);
	bpf_wq_set_callback_impl(&q->wq, work, 0, NULL);
	bpf_wq_start(&q->wq, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
