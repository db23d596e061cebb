#!/usr/bin/env bash
# Tests stores and pushes with servers that others wrote: fake-gcs-server (Google Cloud
# Storage), Azurite (Azure Blob Storage, Microsoft's own) and Prometheus's push gateway.
# Those that are not in PATH are fetched, from Go's proxy, npm and Debian, into
# ~/.cache/ebpf-bench-gate/servers; nothing is installed. One that cannot be had is told,
# and its tests skip.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

servers=${XDG_CACHE_HOME:-$HOME/.cache}/ebpf-bench-gate/servers
mkdir -p "$servers/bin"
PATH=$PATH:$servers/bin

# get PROGRAM COMMAND… fetches what is not there.
get() {
	local program=$1
	shift
	command -v "$program" >/dev/null || "$@" || warn "no $program: its tests skip"
}
from_npm() { # from_npm PROGRAM PACKAGE
	command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix "$servers" "$2" &&
		ln -sf "../node_modules/.bin/$1" "$servers/bin/$1"
}
from_debian() { # from_debian PACKAGE
	(cd "$servers" && apt-get download -q "$1" && dpkg -x "$1"_*.deb deb && ln -sf "../deb/usr/bin/$1" bin/ && rm "$1"_*.deb)
}
get fake-gcs-server env GOBIN="$servers/bin" "${GO:-go}" install github.com/fsouza/fake-gcs-server@v1.52.3
get azurite-blob from_npm azurite-blob azurite@3.35.0
get prometheus-pushgateway from_debian prometheus-pushgateway

"${GO:-go}" test -count 1 -v -run 'Everywhere|Index|TwoHundred|Gateway' ./internal/store ./internal/push
