# shellcheck shell=bash
# What the steps of the action share. Sourced, not run.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
GATE_DOCKER=${GATE_DOCKER:-docker}
export GATE_DOCKER

fail() { # fail MESSAGE [HINT]
	printf '::error title=ebpf-bench-gate::%s\n' "$1"
	[ $# -lt 2 ] || printf 'hint: %s\n' "$2"
	exit 3
}

need_docker() {
	[ "$(uname -s)" = Linux ] || fail "eBPF programs are measured on Linux; this runner has $(uname -s)" "runs-on: ubuntu-latest"
	command -v "$GATE_DOCKER" >/dev/null ||
		fail "this runner has no docker command" "use a hosted Linux runner or install Docker; inside of a job container (container:), leave that line out"
	local message
	message=$("$GATE_DOCKER" version --format '{{.Server.Version}}' 2>&1) ||
		fail "the Docker engine cannot be reached: ${message//$'\n'/ }" "the runner's user must be allowed to use it; inside of a job container (container:), leave that line out"
}

# set_image TARGET puts a name for the image into GATE_IMAGE: the one that the
# workflow says, the one that this version was released with, or one built from
# this very action. TARGET is full or slim.
set_image() {
	local target=$1 released
	if [ -n "${GATE_IMAGE:-}" ]; then
		"$GATE_DOCKER" image inspect "$GATE_IMAGE" >/dev/null 2>&1 || "$GATE_DOCKER" pull --quiet "$GATE_IMAGE" ||
			fail "there is no image $GATE_IMAGE"
		return
	fi
	# The file is part of a release: an image by its digest, which nobody can move.
	released=$(sed -n "s/^$target=//p" "$here/image.txt")
	if [ -n "$released" ] && "$GATE_DOCKER" pull --quiet "$released"; then
		GATE_IMAGE=$released
		return
	fi
	echo "building the image from $(basename "$(dirname "$(dirname "$here")")"), since none was released with it or it cannot be pulled"
	# By its number, which another job of this host cannot give to another image. The
	# name keeps it for the next job.
	# shellcheck disable=SC2086 # words of docker's, set by whoever runs the engine
	GATE_IMAGE=$("$GATE_DOCKER" build ${GATE_BUILD_FLAGS:-} --quiet --target "$target" -t "ebpf-bench-gate:action-$target" "$(dirname "$(dirname "$here")")") ||
		fail "the image can be neither pulled nor built"
}

# take_gate copies gate out of the image: one static file, of the same build that
# measures.
take_gate() {
	local id copied=true
	gate=${RUNNER_TEMP:?}/ebpf-bench-gate
	id=$("$GATE_DOCKER" create --pull never "$GATE_IMAGE" version) || fail "the image $GATE_IMAGE cannot be used"
	"$GATE_DOCKER" cp --quiet "$id:/usr/local/bin/gate" "$gate" 2>/dev/null || "$GATE_DOCKER" cp "$id:/usr/local/bin/gate" "$gate" >/dev/null || copied=false
	"$GATE_DOCKER" rm "$id" >/dev/null
	[ "$copied" = true ] || fail "the image $GATE_IMAGE holds no gate"
}
