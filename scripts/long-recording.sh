#!/usr/bin/env bash
# Does memory stay bounded? Transcribes 5 and 60 minutes of speech (the demo's readings over and over) and prints the peak
# of each and its last words. Takes about three minutes.
#
#   scripts/long-recording.sh
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked
firstword=$(scripts/target-folder.sh)/release/firstword
scripts/pull.sh "$firstword"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python3 - "$folder" "$firstword" <<'PYTHON'
import json
import os
import pathlib
import subprocess
import sys
import wave

folder, firstword = pathlib.Path(sys.argv[1]), sys.argv[2]
listed = subprocess.run([firstword, "model", "list", "--format", "json"], stdout=subprocess.PIPE, text=True, check=True)
clips = next(entry for entry in map(json.loads, listed.stdout.splitlines()) if entry["name"] == "demo-clips")
with wave.open(str(pathlib.Path(clips["path"]) / "two_cities.wav")) as reading:
    settings, sound = reading.getparams(), reading.readframes(reading.getnframes())
for minutes in (5, 60):
    path = folder / f"{minutes}.wav"
    with wave.open(str(path), "wb") as long:
        long.setparams(settings)
        for _ in range(round(minutes * 60 * settings.framerate / settings.nframes)):
            long.writeframes(sound)
    process = subprocess.Popen([firstword, "transcribe", str(path)], stdout=subprocess.PIPE, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"exit status {status}")
    print(f"{minutes} minutes: peak {usage.ru_maxrss / 1024:.0f} MiB, {usage.ru_utime + usage.ru_stime:.0f} s of processor time")
    print(f"  {len(text.split())} words, the last: {' '.join(text.split()[-8:])}")
PYTHON
