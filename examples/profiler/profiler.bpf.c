// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A sampling profiler: whatever a CPU does when its timer fires is one sample. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

#define MAX_FRAMES 64

/* What user space reads; event/event.go has the same. */
struct sample {
	__u64 time; /* ns since boot */
	__u32 pid, tid, cpu;
	__s32 kernel_bytes, user_bytes; /* of the stacks; below 0: there is none */
	char comm[16];
	__u64 kernel[MAX_FRAMES], user[MAX_FRAMES]; /* the innermost frame first */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} samples SEC(".maps");

/* 0: all processes. The idle task is none. */
const volatile __u32 only;
/* Samples for which there was no room. */
__u64 lost;

SEC("perf_event")
int profile(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct sample *s;

	if (!id || (only && only != id >> 32))
		return 0;
	s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	s->time = bpf_ktime_get_ns();
	s->pid = id >> 32;
	s->tid = id;
	s->cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	s->kernel_bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	s->user_bytes = bpf_get_stack(ctx, s->user, sizeof(s->user), BPF_F_USER_STACK);
	bpf_ringbuf_submit(s, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
