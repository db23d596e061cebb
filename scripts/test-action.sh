#!/usr/bin/env bash
# Tests the action with real parts: a Docker engine, a runner of workflows
# (nektos/act), GitHub's client for artifacts, a forge (Gitea).
#
#   scripts/test-action.sh          everything
#   scripts/test-action.sh shell    sets up, and gives a shell to try things in
#
# What takes long to make is kept in ~/.cache/ebpf-bench-gate: act, Gitea, the
# engine's images. An engine that runs already is used; else one of our own is
# started, with its own directories and without a bridge, and ended.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# A hang ends with what was going on, in place of a machine that says nothing: timeout
# ends the process group of all that runs in the foreground. Who sits at a terminal
# does that by themselves.
limit=${GATE_TEST_LIMIT:-3600} # seconds; an idle machine with empty caches takes 850
if [ -z "${GATE_TEST_LIMITED:-}" ] && [ ! -t 0 ] && [ "${1:-}" != shell ]; then
	export GATE_TEST_LIMITED=1
	exec timeout --kill-after=120 "$limit" bash scripts/test-action.sh "$@"
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ebpf-bench-gate
act_version=v0.2.87
gitea_version=v1.26.0
# act's server of artifacts checks signatures that newer clients of Azure's send
# without their padding.
client='{"private":true,"dependencies":{"@actions/artifact":"2.3.2"},"overrides":{"@azure/storage-blob":"12.17.0"}}'

[ "$(id -u)" = 0 ] || die 1 "the Docker engine and eBPF need root: sudo env PATH=\"\$PATH\" $0"
mkdir -p "$cache/bin"
log=$cache/setup.log
doing="another one is going on"
run=/run/ebpf-bench-gate-test
engine=
others=() # what runs beside, each in a process group of its own
finish() {
	local code=$? pid
	trap - EXIT INT TERM
	if [ "$code" = 143 ]; then
		tail -n 20 "$log" "$cache/setup-images.log" >&2 2>/dev/null || true
		warn "ended after $SECONDS s, of at most $limit, while $doing; all output of the set-up is in $cache"
	fi
	for pid in "${others[@]}"; do
		if kill -- "-$pid" 2>/dev/null; then wait "$pid" || true; fi
	done
	if [ -n "$engine" ]; then
		kill "$engine" 2>/dev/null || true
		timeout 60 tail --pid="$engine" -f /dev/null || kill -9 "$engine" 2>/dev/null || true
		wait "$engine" 2>/dev/null || true
		# The engine leaves the network namespace of its containers mounted.
		umount "$run"/exec/netns/* 2>/dev/null || true
		rm -rf "$run"
	fi
	rm -rf "${work:-}"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One at a time: they would start two engines.
exec 9>"$cache/lock"
flock -w 1800 9 || die 1 "another scripts/test-action.sh holds $cache/lock"
work=$(mktemp -d)
doing="beginning"

# Beside other work on somebody's machine; a machine of CI has no other.
nice=(nice)
[ "${CI:-}" != true ] || nice=()

# quietly WHAT COMMAND… says how long it took; its output is kept, and shown where
# it fails. A failure within a function ends it, which it would not behind an "||".
quietly() {
	local what=$1 start=$SECONDS code
	shift
	doing=$what
	set +e
	(set -e && "$@") >>"$log" 2>&1 9>&-
	code=$?
	set -e
	[ "$code" = 0 ] || { tail -40 "$log" >&2; die 1 "$what failed; all of its output is in $log"; }
	say "$what: $((SECONDS - start)) s"
}
: >"$log"
have() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }
export PATH=$PATH:/usr/sbin:/sbin

packages=()
answers() { timeout 20 docker version >/dev/null 2>&1; }
have dockerd || answers || packages+=(docker.io iptables)
have debootstrap || packages+=(debootstrap)
have node || packages+=(nodejs)
have npm || packages+=(npm)
have gcc || packages+=(gcc libc6-dev)
if [ ${#packages[@]} != 0 ]; then
	install() {
		export DEBIAN_FRONTEND=noninteractive
		apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" ||
			{ apt-get -qq -o DPkg::Lock::Timeout=300 update && apt-get -qq install -y --no-install-recommends "$@"; }
	}
	quietly "installing ${packages[*]}" install "${packages[@]}"
fi

# The command that comes with the engine, lest an older engine meets a newer one.
[ ! -x /usr/bin/docker ] || PATH=/usr/bin:$PATH

start_engine() {
	export DOCKER_HOST=unix://$run/docker.sock
	mkdir -p "$run"
	# No bridge and no firewall rules: containers here have no network, and
	# builds use the host's.
	setsid dockerd --data-root "$cache/docker" --exec-root "$run/exec" --pidfile "$run/docker.pid" \
		-H "$DOCKER_HOST" --bridge=none --iptables=false --ip6tables=false >"$cache/dockerd.log" 2>&1 9>&- &
	engine=$!
	for _ in $(seq 150); do
		answers && return
		kill -0 "$engine" 2>/dev/null || break
		sleep 0.2
	done
	tail -20 "$cache/dockerd.log" >&2
	die 1 "the Docker engine does not start"
}
answers || start_engine
docker version --format 'Docker engine {{.Server.Version}}'

# Where no registry can be reached, the images that the Dockerfile begins with are
# made from the distribution's packages and the Go that is here. (Without the digest
# that a release puts there, which only a registry's image has.)
argument() { sed -n "s/^ARG $1=\([^@]*\).*/\1/p" Dockerfile; }
base_image=$(argument BASE_IMAGE)
go_image=$(argument GO_IMAGE)
make_base() {
	debootstrap --variant=minbase --include=ca-certificates bookworm "$work/base" http://deb.debian.org/debian
	rm -rf "$work/base/var/cache/apt/archives" "$work/base/var/lib/apt/lists"
	mkdir -p "$work/base/var/cache/apt/archives/partial" "$work/base/var/lib/apt/lists/partial"
	tar -C "$work/base" -c . | docker import - "$base_image"
	rm -rf "$work/base"
}
make_go() {
	mkdir -p "$work/go"
	# What this host trusts, since modules come through its network.
	cp /etc/ssl/certs/ca-certificates.crt "$work/go/"
	tar -C "$(go env GOROOT)" -cf "$work/go/go.tar" --transform 's,^\.,./go,' ./bin ./pkg ./src ./lib ./go.env ./VERSION
	cat >"$work/go/Dockerfile" <<-EOF
		FROM $base_image
		ADD go.tar /usr/local/
		COPY ca-certificates.crt /etc/ssl/certs/
		ENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin GOTOOLCHAIN=local GOPROXY=$(go env GOPROXY)
	EOF
	docker build -t "$go_image" "$work/go"
}
image=ebpf-bench-gate:test
make_image() { # make_image TARGET NAME
	"${nice[@]}" docker build --network host --build-arg "BASE_IMAGE=$base_image" --build-arg "GO_IMAGE=$go_image" --target "$1" -t "$2" .
}
# ready IMAGE: it is here, or a registry has it.
ready() { docker image inspect "$1" >/dev/null 2>&1 || timeout 120 docker pull --quiet "$1" >>"$log" 2>&1; }
make_images() {
	ready "$base_image" || quietly "making $base_image" make_base
	ready "$go_image" || quietly "making $go_image" make_go
	quietly "building gate" make_image build "$image-build" # named, or it would not be there the next time
	quietly "building the image" make_image full "$image"
	quietly "building the small image" make_image slim "$image-slim"
	# Layers of earlier tests.
	docker image prune --force >/dev/null
}

# These programs need not be fast, and are compiled in half the time so.
quick='all=-l -dwarf=false'
# Cached programs carry their versions in their names.
act=$cache/bin/act-$act_version
make_act() {
	GOBIN=$work/bin GOFLAGS=-mod=mod CGO_ENABLED=0 "${nice[@]}" go install -gcflags "$quick" -ldflags "-s -w" "github.com/nektos/act@$act_version"
	mv "$work/bin/act" "$act"
}
gitea=$cache/bin/gitea-$gitea_version
gitea_source() {
	(cd "$work" && go mod download -json "code.gitea.io/gitea@$gitea_version") | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}
make_gitea() {
	cp -r "$(gitea_source)" "$work/gitea"
	chmod -R u+w "$work/gitea"
	(cd "$work/gitea" && CGO_ENABLED=1 CGO_CFLAGS=-O0 "${nice[@]}" go build -trimpath -gcflags "$quick" -tags "sqlite sqlite_unlock_notify" \
		-ldflags "-s -w -X main.Version=${gitea_version#v}" -o "$work/gitea.new" .)
	mv "$work/gitea.new" "$gitea"
	rm -rf "$work/gitea"
}
make_client() {
	rm -rf "$cache/client" && mkdir -p "$cache/client"
	printf '%s\n' "$client" >"$cache/client/package.json"
	(cd "$cache/client" && npm install --no-audit --no-fund --ignore-scripts --omit=dev --loglevel=error)
	printf '%s\n' "$client" >"$cache/client/made"
}
make_programs() {
	[ "$(cat "$cache/client/made" 2>/dev/null)" = "$client" ] || quietly "installing @actions/artifact" make_client
	[ -x "$gitea" ] || quietly "building Gitea $gitea_version" make_gitea
	[ -x "$act" ] || quietly "building act $act_version" make_act
}

# Side by side: one half compiles, the other waits for downloads most of the time.
set -m
(log=$cache/setup-images.log && : >"$log" && make_images) 9>&- &
others+=($!)
set +m
make_programs
doing="making the images"
wait "${others[0]}" || die 1 "there is no image to test with"
others=()

megabytes() { echo $(($(docker image inspect --format '{{.Size}}' "$1") / 1000000)); }
for limit in "$image 900" "$image-slim 60"; do
	read -r name most <<<"$limit"
	size=$(megabytes "$name")
	say "$name: $size MB (at most $most)"
	[ "$size" -lt "$most" ] || die 1 "$name is too large"
done

export GATE_TEST_BUILD_FLAGS="--build-arg BASE_IMAGE=$base_image --build-arg GO_IMAGE=$go_image"
export GATE_TEST_IMAGE=$image GATE_TEST_ACT=$act GATE_TEST_CLIENT=$cache/client/node_modules
# Gitea reads its templates and texts from its source.
GATE_TEST_GITEA=$gitea GATE_TEST_GITEA_SOURCE=$(gitea_source)
export GATE_TEST_GITEA GATE_TEST_GITEA_SOURCE
if [ "${1:-}" = shell ]; then
	"${SHELL:-bash}" -i
	exit
fi
doing="testing"
# One at a time, since of the second go test would show nothing before its end. Not
# cached: what they test is outside of Go's sight.
failed=0
for package in ./internal/action ./test/action; do
	go test -count=1 -timeout 45m -v "$package" || failed=1
done

# What docs/action.md says how fast it is. From docker run to the verdict: TestScenario.
doing="measuring"
say "a comment of 500 benchmarks on 5 testbeds, a roll-up of 64 runs and a baseline at 50 ms a request:"
go test -run '^$' -bench 'Suite500x5|RollUp64|Baseline' -benchtime 5x ./internal/render ./internal/github | grep -e ^Benchmark -e ^FAIL
[ "$failed" = 0 ]
