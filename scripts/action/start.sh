#!/usr/bin/env bash
# The first step of the action, in a job of its own or before measuring: says on the
# commit that a verdict is on its way. It has the token, and runs nothing of a pull
# request. A token that may only read is told about, and costs nothing.
set -euo pipefail
# shellcheck source=scripts/action/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ "${GATE_STATUS:-}" = true ] || exit 0
need_docker
if [ "${GATE_MODE:-}" = all ]; then set_image full; else set_image slim; fi
take_gate
exec "$gate" report --pending
