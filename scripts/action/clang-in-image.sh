#!/bin/sh
# clang as the action compiles with it, inside of the image. Sources that include
# vmlinux.h and bring none get the running kernel's.
set -eu
case " $* " in
*" --version "*) exec clang "$@" ;;
esac
include=${TMPDIR:-/tmp}/gate-include
if [ ! -e "$include/vmlinux.h" ] && [ -r /sys/kernel/btf/vmlinux ]; then
	mkdir -p "$include"
	bpftool btf dump file /sys/kernel/btf/vmlinux format c >"$include/vmlinux.h.new"
	mv "$include/vmlinux.h.new" "$include/vmlinux.h"
fi
exec clang -idirafter "$include" "$@"
