#!/usr/bin/env bash
# Shows gate on the running example: three changes to an XDP program, of which one
# is a regression and one is its cure. Fails if gate says anything else.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

can_be_root || die 3 "loading eBPF programs needs root: run 'sudo make demo'"

example=examples/fun-xdp
out=$(mktemp)
# Runs are stored by root; leave them to the user whose checkout this is.
finish() {
	rm -f "$out"
	if [ "${#as_root[@]}" != 0 ] && [ -e .ebpf-bench ]; then
		"${as_root[@]}" chown -R "$(id -u):$(id -g)" .ebpf-bench
	fi
}
trap finish EXIT

failed=0
# compare BASE HEAD EXPECTED… holds gate's exit code against those expected.
compare() {
	local base=$1 head=$2 code=0
	shift 2
	local command=(bin/gate run --config "$example/ebpf-bench.yml" --base "$example/$base.bpf.c" "$example/$head.bpf.c")
	printf '\n$ %s\n\n' "${as_root[*]:+sudo }${command[*]}"
	# Only stdout is kept, so that gate still sees its terminal on stderr.
	"${as_root[@]}" "${command[@]}" >"$out" || code=$?
	cat "$out"
	local expected
	for expected; do
		if [ "$code" = "$expected" ]; then
			printf '(exit %s)\n' "$code"
			return 0
		fi
	done
	printf 'error: exit %s, expected %s\n' "$code" "$*" >&2
	failed=1
}

# mention TEXT holds the last report against what it has to say.
mention() {
	grep -qi -- "$1" "$out" || {
		warn "the report does not say $1"
		failed=1
	}
}

say "1. FizzBuzz instead of addresses: another program, slower or not."
compare v1_basic v2_fizzbuzz 0 1

say
say "2. Fibonacci by a loop: the regression. gate fails the change."
compare v2_fizzbuzz v3_fibonacci 1
mention fun_xdp/worst

say
say "3. The same by a table: faster, and gate passes it."
compare v3_fibonacci v4_lookup 0
mention improved

if [ "$failed" != 0 ]; then
	die 1 "gate did not say what the demo expects (Linux 6.1 and older refuse v3_fibonacci; 'bin/gate doctor' tells what this host can measure)"
fi
say
say "Next: $example/README.md, or 'bin/gate run YOUR_OBJECT.o'."
