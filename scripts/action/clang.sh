#!/usr/bin/env bash
# clang of the image, as the user of the runner, for gate to compile .bpf.c sources
# with: it can read the checkout and write beside the object, and has no network, no
# capability, and no token of git's.
set -euo pipefail
run=("${GATE_DOCKER:?}" run --rm --init --pull never --network none --log-driver none
	--cap-drop ALL --security-opt no-new-privileges --read-only --tmpfs /tmp --pids-limit 256
	--user "$(id -u):$(id -g)" --entrypoint gate-clang)
if [ "${1:-}" = --version ]; then
	exec "${run[@]}" "${GATE_IMAGE:?}" "$@"
fi

# see DIRECTORY lets clang read a checkout, without what git keeps beside it.
seen=
see() {
	local dir
	dir=$(git -C "$1" rev-parse --show-toplevel 2>/dev/null) || dir=$1
	[ "$dir" != "$seen" ] || return 0
	seen=$dir
	run+=(--mount "type=bind,source=$dir,target=$dir,readonly")
	[ ! -d "$dir/.git" ] || run+=(--tmpfs "$dir/.git")
}
see "$PWD"
# What base shares with head is links into it.
[ -z "${GITHUB_WORKSPACE:-}" ] || see "$GITHUB_WORKSPACE"
out=$(dirname "${!#}") # gate names the object last
run+=(--mount "type=bind,source=$out,target=$out" --workdir "$PWD")
exec "${run[@]}" "${GATE_IMAGE:?}" "$@"
