// Two functions whose lines the test knows.
#define SEC(name) __attribute__((section(name), used))

static __attribute__((noinline)) int inner(int x)
{
	return x * 7 + 3;
}

SEC("socket") int outer(void *ctx)
{
	volatile int sum = 0;
	for (int i = 0; i < 10; i++)
		sum += inner(i + sum);
	return sum;
}

char LICENSE[] SEC("license") = "GPL";
