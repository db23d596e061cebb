#!/usr/bin/env bash
# Prints how fast and how steady the measuring is, on this host.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test -run '^$' -bench . "$@" ./bpf/...
