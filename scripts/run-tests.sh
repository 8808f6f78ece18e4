#!/usr/bin/env bash
# Runs all tests of the workspace and keeps what they print.
#
#   scripts/run-tests.sh LOG
set -euo pipefail

# --show-output: a test that was skipped passes, and says so in its output.
# No colour: the log is counted by scripts/count-tests.sh.
{
    CARGO_TERM_COLOR=never cargo test --workspace --locked --no-fail-fast -- --color never --show-output
    # What is left out of a usual build.
    CARGO_TERM_COLOR=never cargo test -p firstword --features parquet --test log_export --locked -- --color never --show-output
} 2>&1 | tee "${1:?usage: scripts/run-tests.sh LOG}"
