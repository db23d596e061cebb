#!/usr/bin/env bash
# Installs what is missing on Debian and Ubuntu, and nothing else.
#
#   scripts/setup.sh demo   what `make demo` needs; fails if it cannot be had
#   scripts/setup.sh test   that, and what tests are the better for; never fails,
#                           since tests skip what they cannot do and say why
#   scripts/setup.sh ci     that, and what .ci/run needs; fails like demo
#
# Asks nothing, prints nothing when nothing is missing, and fetches apt's package
# lists only if the ones that are there will not do.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

goal=${1:-demo}
case $goal in
demo | test | ci) ;;
*) die 2 "usage: scripts/setup.sh demo|test|ci" ;;
esac

go_wanted=$(sed -n 's/^go //p' go.mod)
command -v go >/dev/null ||
	die 1 "Go is not installed or not in PATH; gate needs Go $go_wanted or later: https://go.dev/dl/"

# have looks for the thing itself and not for a package, because it may have been
# installed by other means. Ordinary users have no sbin in their PATH.
have() {
	PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null
}
needed=()   # packages without which the goal cannot be reached
wished=()   # packages that not every release has
need() { needed+=("$1"); }
wish() { wished+=("$1"); }

have clang || need clang
[ -e /usr/include/bpf/bpf_helpers.h ] || need libbpf-dev
[ -e /usr/include/linux/bpf.h ] || need linux-libc-dev
have git || need git
# Go fetches modules, and trusts what the system trusts.
[ -e /etc/ssl/certs/ca-certificates.crt ] || need ca-certificates
if [ "$goal" != demo ]; then
	have ip || need iproute2
	have jq || need jq
	have bpftool || wish bpftool
	compgen -G '/usr/lib/*/bpf/xdp*.o' >/dev/null || compgen -G '/usr/lib/bpf/xdp*.o' >/dev/null || wish xdp-tools
	have execsnoop || wish libbpf-tools
	# Debian has it from 13 on: where apt does not know it, there is nothing to wish.
	have veristat || ! apt-cache show veristat >/dev/null 2>&1 || wish veristat
	have qemu-system-x86_64 || wish qemu-system-x86
	have tcpreplay || wish tcpreplay # make bench sends packets beside it
fi
if [ "$goal" = ci ]; then
	have gcc || need gcc
	[ -e /usr/include/stdlib.h ] || need libc6-dev
	have make || need make
	have shellcheck || wish shellcheck
	have chromium || wish chromium # opens the pages of reports
fi
# The tests of other kernels ask apt for their packages, which a machine whose lists
# were never fetched does not know.
lists=known
if [ "$goal" != demo ] && command -v apt-cache >/dev/null && ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
	lists=missing
fi
if [ $((${#needed[@]} + ${#wished[@]})) = 0 ] && [ "$lists" = known ]; then
	exit 0
fi

# give_up ends the set-up where a package that is needed cannot be had.
give_up() {
	if [ "${#needed[@]}" = 0 ] || [ "$goal" = test ]; then
		warn "$1; tests that need ${needed[*]} ${wished[*]} skip"
		exit 0
	fi
	die 1 "$1; install by hand: ${needed[*]}"
}

command -v apt-get >/dev/null || give_up "this is neither Debian nor Ubuntu"
can_be_root || give_up "cannot install packages: neither root nor sudo without a password"

apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fresh=no # whether the package lists have been fetched
refresh() {
	[ "$fresh" = no ] || return 0
	fresh=yes
	apt update >"$log" 2>&1 || { cat "$log" >&2; warn "apt-get update failed"; }
}
install() {
	apt install -y --no-install-recommends "$@" >"$log" 2>&1
}

[ "$lists" = known ] || refresh
if [ "${#needed[@]}" != 0 ]; then
	say "installing ${needed[*]}"
	# The second try is for lists that are missing, or older than the archive.
	if ! install "${needed[@]}"; then
		refresh
		install "${needed[@]}" || { cat "$log" >&2; give_up "apt-get failed"; }
	fi
	needed=()
fi
# One at a time: a package that a release lacks must not cost the others.
for package in "${wished[@]}"; do
	say "installing $package"
	install "$package" && continue
	refresh
	install "$package" || warn "$package cannot be installed here; tests that need it skip"
done
