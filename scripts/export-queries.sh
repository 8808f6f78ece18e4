#!/usr/bin/env bash
# Runs the queries of docs/latency-report.md in DuckDB over exports of made-up logs. DuckDB is fetched once, into the cache
# folder; where it can't be had, nothing is run, and that is said.
#
#   FIRSTWORD_NO_SKIP  1: then it is a failure
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.0.1
python=${XDG_CACHE_HOME:-$HOME/.cache}/firstword/duckdb-$version/bin/python
if ! "$python" -c 'import duckdb' 2>/dev/null; then
    folder=$(dirname "$(dirname "$python")")
    rm -rf "$folder"
    if ! { python3 -m venv "$folder" &&
        "$python" -m pip install -q --disable-pip-version-check --only-binary :all: "duckdb==$version"; }; then
        rm -rf "$folder"
        echo "skipped: DuckDB $version can't be fetched for this machine"
        [ "${FIRSTWORD_NO_SKIP:-}" != 1 ]
        exit
    fi
fi
cargo build -q --locked -p firstword -p firstword-benches --bin firstword --bin log_records
programs=$(scripts/target-folder.sh)/debug
"$python" scripts/export-queries.py "$programs/firstword" "$programs/log_records"
