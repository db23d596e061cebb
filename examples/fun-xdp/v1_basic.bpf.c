// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Version 1: tell the agent the source address of every IPv4 packet. */
#include "fun_xdp.h"

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, SOURCE_ADDR_QUEUE_ENTRIES);
	__type(value, __u32);
} SOURCE_ADDR_QUEUE SEC(".maps");

SEC("xdp")
int fun_xdp(struct xdp_md *ctx)
{
	__u32 addr;

	switch (ipv4_source(ctx, &addr)) {
	case MALFORMED:
		return XDP_ABORTED;
	case NOT_IPV4:
		return XDP_PASS;
	case IPV4:
		break;
	}

	/* A full queue loses the address: the packet matters more. */
	bpf_map_push_elem(&SOURCE_ADDR_QUEUE, &addr, BPF_ANY);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
