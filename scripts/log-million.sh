#!/usr/bin/env bash
# How long `firstword log report` takes over a million records on one core, and how much memory. Bounds: 8 s, 300 MB. The log
# (1.6 GB) is made and read once beforehand, so that the program is measured and not the disk.
#
#   scripts/log-million.sh [PLACE]     a folder for the log, kept [default: a temporary one, removed]
set -euo pipefail
cd "$(dirname "$0")/.."

place=${1:-}
if [ -z "$place" ]; then
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
fi
cargo build -q --release --locked -p firstword
cargo build -q --locked -p firstword-benches --bin log_records
programs=$(scripts/target-folder.sh)
[ -e "$place/truth.json" ] || "$programs/debug/log_records" "$place" 1000000 encode
cat "$place"/*.jsonl >/dev/null
FIRSTWORD_HOME=$place taskset -c 0 python3 - "$programs/release/firstword" "$place" <<'PYTHON'
import resource
import subprocess
import sys
import time

program, place = sys.argv[1:]
begin = time.monotonic()
subprocess.run([program, "log", "report", place], check=True, stdout=subprocess.DEVNULL)
took = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
megabytes = used.ru_maxrss / 1000
print(f"{took:.2f} s on the clock, {used.ru_utime + used.ru_stime:.2f} s of one core, {megabytes:.0f} MB")
if took > 8 or megabytes > 300:
    sys.exit("over the bounds: 8 s, 300 MB")
PYTHON
