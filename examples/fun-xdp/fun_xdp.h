/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the four versions of fun_xdp share: how a packet gives its address. */
#ifndef FUN_XDP_H
#define FUN_XDP_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define SOURCE_ADDR_QUEUE_ENTRIES 1024

enum parsed {
	NOT_IPV4,
	IPV4,
	MALFORMED,
};

/* ipv4_source reads the source address as a number, so that 1.0.0.2 is
 * 0x01000002. A frame too short for the header that it announces is malformed.
 */
static __always_inline enum parsed ipv4_source(struct xdp_md *ctx, __u32 *addr)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);

	if ((void *)(eth + 1) > end)
		return MALFORMED;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return NOT_IPV4;
	if ((void *)(ip + 1) > end)
		return MALFORMED;
	*addr = bpf_ntohl(ip->saddr);
	return IPV4;
}

#endif
