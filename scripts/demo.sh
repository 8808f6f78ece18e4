#!/usr/bin/env bash
# From a fresh checkout to words and an answer: installs what is missing, builds, fetches the models once, runs the demo.
# The second time nothing is fetched, and no network is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prepare.sh demo
cargo build --release --locked
firstword=$(scripts/target-folder.sh)/release/firstword
scripts/pull.sh "$firstword"
"$firstword" demo

# A voice turn: a question, spoken by espeak-ng at the pace of speech, recognised and answered.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
question=$folder/question.wav
espeak-ng -v en-us -s 150 -w "$question" "What is the capital of Japan?"
printf '\n$ firstword listen --pace realtime --timings question.wav\n\n' >&2
"$firstword" listen --pace realtime --timings "$question"
printf '\nYour own question: firstword listen FILE, or firstword chat "Hello"\n' >&2
