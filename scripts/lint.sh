#!/usr/bin/env bash
# What can be judged without running the program: formatting, clippy, documentation, scripts, Python.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "-- cargo fmt"
cargo fmt --all --check
echo "-- cargo clippy"
cargo clippy --workspace --all-targets --locked -- -D warnings
# What is left out of a usual build.
cargo clippy -p firstword --features parquet --all-targets --locked -- -D warnings
echo "-- cargo doc"
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

echo "-- scripts"
scripts=(scripts/*.sh cross/aarch64 cross/gate .ci/run)
for script in "${scripts[@]}"; do
    bash -n "$script"
done
if command -v shellcheck >/dev/null; then
    shellcheck "${scripts[@]}"
else
    echo "shellcheck is not installed: scripts were only parsed"
fi

echo "-- Python"
mapfile -t sources < <(find . -name '*.py' -not -path './target/*')
python3 - "${sources[@]}" <<'PYTHON'
import ast
import pathlib
import sys

for name in sys.argv[1:]:
    ast.parse(pathlib.Path(name).read_text(encoding="utf-8"), filename=name)
print(len(sys.argv) - 1, "Python files parse")
PYTHON
(cd benches/peers && python3 -B -m unittest -q)
