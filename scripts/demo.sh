#!/usr/bin/env bash
# From a fresh checkout to words: installs what is missing, builds, fetches the models once, runs the demo.
# The second time nothing is fetched, and no network is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prepare.sh demo
cargo build --release --locked
firstword=$(scripts/target-folder.sh)/release/firstword
scripts/pull.sh "$firstword"
exec "$firstword" demo
