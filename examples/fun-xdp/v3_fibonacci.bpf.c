// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Version 3: Fibonacci numbers first. This is the regression. */
#include "fun_xdp.h"

/* Counted from 1, so that memory that nobody wrote is none of them. */
enum SourceAddr {
	Fizz = 1,
	Buzz,
	FizzBuzz,
	Fibonacci,
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, SOURCE_ADDR_QUEUE_ENTRIES);
	__type(value, enum SourceAddr);
} SOURCE_ADDR_QUEUE SEC(".maps");

/* is_fibonacci counts up until it reaches n. The sum wraps around at 256, so the
 * loop can climb past 233: for 255 it runs 381 times, and it takes 241, 245,
 * 247, 253 and 255 for Fibonacci numbers. That is how such a bug looks in the
 * wild; version 4 does not have it.
 */
static __always_inline int is_fibonacci(__u8 n)
{
	__u8 a = 0, b = 1;

	while (b < n) {
		__u8 c = a + b;

		a = b;
		b = c;
	}
	return b == n || n == 0;
}

/* classify says what the address is; 0 tells that it is nothing. */
static __always_inline int classify(__u32 addr, enum SourceAddr *value)
{
	if (is_fibonacci(addr % 256)) {
		*value = Fibonacci;
		return 1;
	}

	if (addr % 15 == 0)
		*value = FizzBuzz;
	else if (addr % 3 == 0)
		*value = Fizz;
	else if (addr % 5 == 0)
		*value = Buzz;
	else
		return 0;
	return 1;
}

SEC("xdp")
int fun_xdp(struct xdp_md *ctx)
{
	enum SourceAddr value;
	__u32 addr;

	switch (ipv4_source(ctx, &addr)) {
	case MALFORMED:
		return XDP_ABORTED;
	case NOT_IPV4:
		return XDP_PASS;
	case IPV4:
		break;
	}

	if (classify(addr, &value))
		/* A full queue loses the value: the packet matters more. */
		bpf_map_push_elem(&SOURCE_ADDR_QUEUE, &value, BPF_ANY);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
