# shellcheck shell=bash disable=SC2034
# What the scripts share. Sourced, not run.

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() { # die EXITCODE MESSAGE
	printf 'error: %s\n' "$2" >&2
	exit "$1"
}

# as_root is what stands before a command that needs root: nothing for root, sudo
# for others. sudo may ask for a password only where somebody can answer.
as_root=()
can_be_root() {
	if [ "$(id -u)" = 0 ]; then
		return 0
	fi
	command -v sudo >/dev/null || return 1
	as_root=(sudo -n)
	if ! sudo -n true 2>/dev/null; then
		{ [ -t 0 ] && [ -t 2 ]; } || return 1
		as_root=(sudo)
	fi
}
