#!/usr/bin/env bash
# Runs the queries of docs/latency-report.md in DuckDB over exports of made-up logs. DuckDB is fetched once, into the cache
# folder.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.0.1
python=${XDG_CACHE_HOME:-$HOME/.cache}/firstword/duckdb-$version/bin/python
if ! "$python" -c 'import duckdb' 2>/dev/null; then
    folder=$(dirname "$(dirname "$python")")
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$python" -m pip install -q --disable-pip-version-check --only-binary :all: "duckdb==$version"
fi
cargo build -q --locked -p firstword -p firstword-benches --bin firstword --bin log_records
programs=$(scripts/target-folder.sh)/debug
"$python" scripts/export-queries.py "$programs/firstword" "$programs/log_records"
