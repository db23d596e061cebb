#!/usr/bin/env bash
# The reporting step of the action: judges, comments, sets the status. It has the
# token, and neither checks out nor runs anything of a pull request.
set -euo pipefail
# shellcheck source=scripts/action/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_docker
if [ "${GATE_MODE:-}" = all ]; then set_image full; else set_image slim; fi
take_gate
exec "$gate" report
