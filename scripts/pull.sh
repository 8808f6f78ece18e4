#!/usr/bin/env bash
# Fetches what the demo and the tests read: the library, the default models (speech, voice activity, language) and the
# recordings.
# Does nothing, and needs no network, when they are in the store already.
#
#   scripts/pull.sh PATH/TO/firstword
set -euo pipefail

exec "${1:?usage: scripts/pull.sh PATH/TO/firstword}" model pull onnxruntime moonshine-tiny-en silero-vad \
    smollm2-135m-instruct demo-clips
