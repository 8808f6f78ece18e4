#!/usr/bin/env bash
# Makes a Python that has onnxruntime-genai, another engine that runs what we import: the tests compare with it.
# Made once, in the cache folder. FILE gets its path.
#
#   scripts/genai.sh FILE
set -euo pipefail

version=0.18.0
python=${XDG_CACHE_HOME:-$HOME/.cache}/firstword/peers/genai-$version/bin/python

if ! "$python" -c 'import onnxruntime_genai' 2>/dev/null; then
    folder=$(dirname "$(dirname "$python")")
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$python" -m pip install -q --disable-pip-version-check --only-binary :all: "onnxruntime-genai==$version"
    "$python" -c 'import onnxruntime_genai'
fi
echo "$python" >"${1:?usage: scripts/genai.sh FILE}"
