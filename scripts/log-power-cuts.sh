#!/usr/bin/env bash
# Kills the log's writer at 500 random moments (make test does it at 50), each time in a folder of its own, and reads what is
# left: runtime/tests/log_power_cut.rs says what must hold.
#
#   scripts/log-power-cuts.sh [KILLS]
set -euo pipefail
cd "$(dirname "$0")/.."

FIRSTWORD_KILLS=${1:-500} cargo test --locked -p firstword --test log_power_cut -- --nocapture a_writer_that_is_killed
