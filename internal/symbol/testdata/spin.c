// Spin burns time in functions that compilers inline, and in its libraries, until its input ends.
// Each function that a test looks for works long by itself too: the C library below it may leave
// no frame pointer to it, and be slow.
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline unsigned step(unsigned x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}

static inline unsigned steps(unsigned x, int n)
{
	for (int i = 0; i < n; i++)
		x = step(x);
	return x;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) unsigned sorted(unsigned x)
{
	static int list[512];
	for (int i = 0; i < 512; i++)
		list[i] = (int)((x = steps(x, 100)) & 0xffff);
	qsort(list, 512, sizeof(list[0]), compare);
	return x + (unsigned)list[7];
}

__attribute__((noinline)) double waves(double x)
{
	for (int i = 0; i < 1000; i++)
		x = sin(x) + 1.5;
	return x;
}

__attribute__((noinline)) unsigned clocks(unsigned x)
{
	struct timespec now;
	for (int i = 0; i < 1000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		x = steps(x + (unsigned)now.tv_nsec, 100);
	}
	return x;
}

int main(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	unsigned x = 88172645;
	double y = 1;
	while (poll(&in, 1, 0) == 0) {
		for (int i = 0; i < 100; i++) {
			x = steps(sorted(x), 20000);
			y = waves(y);
			x = clocks(x);
		}
	}
	return x == 3 && y == 3;
}
