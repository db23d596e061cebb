#!/usr/bin/env bash
# Prints how fast and how steady the measuring is, on this host. Arguments go to
# internal/figures: -only NAME, -markdown FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

can_be_root || die 3 "loading eBPF programs needs root: run 'sudo make bench'"

# Built first, since Go may not be in root's PATH.
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
"${GO:-go}" build -o "$bin/figures" ./internal/figures
CGO_ENABLED=0 "${GO:-go}" build -trimpath -o "$bin/gate" ./cmd/gate # static, as a guest's init has to be
"${as_root[@]}" "$bin/figures" "$@"
