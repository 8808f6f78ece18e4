#!/usr/bin/env bash
# Builds the program for aarch64 and checks that devices can start it.
#
#   scripts/cross.sh [PROFILE]      PROFILE: release, or cross-test, which is built in a fraction of the time [default: release]
#   FIRSTWORD_JETPACK               as cross/aarch64 says [default: 6]
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
scripts/prepare.sh demo
cross/aarch64 prepare
cross/aarch64 cargo build --profile "$profile" --locked -p firstword --bin firstword >&2
case ${FIRSTWORD_JETPACK:-6} in
5) glibc=2.31 ;;
*) glibc=2.35 ;;
esac
program=$(cross/aarch64 folder)/aarch64-unknown-linux-gnu/$profile/firstword
size=15
# Hardly optimised, it is larger.
[ "$profile" = release ] || size=60
cross/gate --glibc "$glibc" --size "$size" "$program"
echo "$program"
