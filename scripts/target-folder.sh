#!/usr/bin/env bash
# Prints the folder that cargo builds into: CARGO_TARGET_DIR, cargo's own configuration, or target.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo metadata --no-deps --offline --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
