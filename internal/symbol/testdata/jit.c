// Jit writes a function at run time, and its name into a perf map, and runs it until its input ends.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	// mov $50000000,%ecx; 1: dec %ecx; jnz 1b; ret
	static const unsigned char code[] = { 0xb9, 0x80, 0xf0, 0xfa, 0x02, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	struct pollfd in = { .fd = 0, .events = POLLIN };
	void (*hot)(void) = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64];
	FILE *map;
	memcpy((void *)hot, code, sizeof(code));
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
	map = fopen(name, "w");
	if (!map)
		return 1;
	fprintf(map, "nonsense\n%lx %zx hot_<script>\n", (unsigned long)hot, sizeof(code));
	fclose(map);
	while (poll(&in, 1, 0) == 0)
		hot();
	unlink(name);
	return 0;
}
