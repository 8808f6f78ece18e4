#!/usr/bin/env bash
# Measures against the peers: makes their environment once in the cache folder, builds, runs benches/peers.
#
#   scripts/peers.sh [ARGUMENTS OF peers.py]
#   PEERS_ONLY=1 scripts/peers.sh     without ours: nothing is built
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prepare.sh peers

# Another set of versions is another folder, so that an old one is never half changed.
pins=$(cat benches/peers/requirements.txt benches/peers/silero.txt | sha256sum | cut -c 1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/firstword/peers/$pins
if [ ! -e "$folder/complete" ]; then
    echo "Fetching the peers into $folder" >&2
    rm -rf "$folder"
    python3 -m venv "$folder/python"
    "$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: -r benches/peers/requirements.txt
    "$folder/python/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --require-hashes --dest "$folder/wheels" -r benches/peers/silero.txt
    "$folder/python/bin/python" - "$folder" <<'PYTHON'
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,) = (folder / "wheels").glob("silero_vad-*.whl")
with zipfile.ZipFile(wheel) as archive:
    (folder / "silero_vad.onnx").write_bytes(archive.read("silero_vad/data/silero_vad.onnx"))
PYTHON
    touch "$folder/complete"
fi

ours=()
if [ -z "${PEERS_ONLY:-}" ]; then
    cargo build --release --locked
    firstword=$(scripts/target-folder.sh)/release/firstword
    scripts/pull.sh "$firstword"
    ours=(--firstword "$firstword")
fi
exec "$folder/python/bin/python" benches/peers/peers.py --silero "$folder" "${ours[@]}" "$@"
