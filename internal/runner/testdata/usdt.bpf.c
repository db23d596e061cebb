// On the probe of tick.c, whose second argument is always 7: only who reads it does
// the work of HEAD.
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/usdt.bpf.h>

SEC("usdt/./tick:gate:tick")
int BPF_USDT(on_tick, int n, long m)
{
#ifdef HEAD
	if (m == 7)
		for (int i = 0; i < 200; i++)
			bpf_ktime_get_ns();
#endif
	return n > 1000;
}
char LICENSE[] SEC("license") = "GPL";
