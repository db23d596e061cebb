/* A USDT probe gate:tick as sys/sdt.h makes one, without a semaphore. */
static void tick(int n, long m)
{
	__asm__ volatile(
		"990: nop\n"
		".pushsection .note.stapsdt,\"\",%%note\n"
		".balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n"
		"992: .balign 4\n"
		"993: .8byte 990b\n"
		".8byte _.stapsdt.base\n"
		".8byte 0\n"
		".asciz \"gate\"\n"
		".asciz \"tick\"\n"
		".asciz \"-4@%0 8@%1\"\n"
		"994: .balign 4\n"
		".popsection\n"
		".ifndef _.stapsdt.base\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
		".weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n"
		"_.stapsdt.base: .space 1\n"
		".size _.stapsdt.base, 1\n"
		".popsection\n"
		".endif\n" : : "r"(n), "r"(m));
}
int main(void) { for (int i = 0; i < 100; i++) tick(i, 7); return 0; }
