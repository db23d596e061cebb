// A scheduler that leaves all to the kernel's defaults, and is told of every task that
// gets a CPU. (Of the operations only those that are used are declared.)
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct task_struct;

struct sched_ext_ops {
	void (*running)(struct task_struct *p);
	__u64 flags;
	char name[128];
};

SEC("struct_ops") void BPF_PROG(on_running, struct task_struct *p)
{
#ifdef HEAD
	for (int i = 0; i < 100; i++)
		bpf_ktime_get_ns();
#endif
}

SEC(".struct_ops.link")
struct sched_ext_ops gate_scx = {
	.running = (void *)on_running,
	.name = "gate_scx",
};

char LICENSE[] SEC("license") = "GPL";
