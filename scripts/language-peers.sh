#!/usr/bin/env bash
# Measures language models against the peers: makes their environment once in the cache folder (llama.cpp is compiled
# there, which takes some minutes), builds, imports, runs benches/peers/language.py.
#
#   scripts/language-peers.sh smollm2-135m-instruct|gemma-3-270m [ARGUMENTS OF language.py]
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:?usage: scripts/language-peers.sh MODEL [ARGUMENTS OF language.py]}
shift
scripts/prepare.sh language-peers

pins=$(sha256sum benches/peers/language.txt | cut -c 1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/firstword/peers/$pins
if [ ! -e "$folder/complete" ]; then
    echo "Fetching and building the peers in $folder" >&2
    rm -rf "$folder"
    python3 -m venv "$folder/python"
    CMAKE_ARGS="-DGGML_NATIVE=ON" "$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r benches/peers/language.txt
    touch "$folder/complete"
fi

cargo build --release --locked -p firstword -p firstword-benches --bin firstword --bin language_cost
release=$(scripts/target-folder.sh)/release
"$release/firstword" model pull onnxruntime "$model"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
weights=("$("$release/firstword" model list --format json |
    python3 -c 'import json, sys; print(next(e["path"] for e in map(json.loads, sys.stdin) if e["name"] == sys.argv[1]))' "$model")"/*.gguf)
for precision in exact balanced fast; do
    "$release/firstword" model import "${weights[0]}" --as "$model" --quant "$precision" --into "$work/$precision"
done
"$release/language_cost" "$work/exact" tokens 512 >"$work/prompt.json"
"$folder/python/bin/python" benches/peers/language.py --ours "$release/language_cost" --gguf "${weights[0]}" \
    --folder "exact=$work/exact" --folder "balanced=$work/balanced" --folder "fast=$work/fast" \
    --prompt "$work/prompt.json" "$@"
