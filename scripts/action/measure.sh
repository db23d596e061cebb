#!/usr/bin/env bash
# The measuring step of the action: finds the image, and hands over to gate. All
# inputs are in the environment, GATE_*.
set -euo pipefail
# shellcheck source=scripts/action/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${GATE_MODE:-} in
all | measure) ;;
*) fail "mode is none of all, measure, report, start" ;;
esac
need_docker
[ -r /sys/kernel/btf/vmlinux ] ||
	fail "this kernel tells no types (BTF): $(uname -r)" "gate needs Linux 5.8 or later with CONFIG_DEBUG_INFO_BTF; every hosted runner has it"
set_image full
take_gate
# The worktree of base and what is compiled lie in the job's own directory, which
# the runner empties.
export GATE_IMAGE CLANG=$here/clang.sh TMPDIR=$RUNNER_TEMP
exec "$gate" action
