#!/usr/bin/env bash
# Counts what `cargo test -- --show-output` printed, over all test binaries.
#
#   scripts/count-tests.sh LOG
#
# A test that cannot run prints a line `skipped: why` and returns, which the test harness takes for passed.
# Such tests, and those marked as ignored, are listed and counted as skipped here. Fails if a test failed, if none
# ran, or if one was skipped while FIRSTWORD_NO_SKIP is 1.
set -euo pipefail

awk -v no_skip="${FIRSTWORD_NO_SKIP:-0}" '
    /^test result: / { passed += $4; failed += $6; ignored += $8; binaries++ }
    # The output of one test follows.
    /^---- .* stdout ----$/ { seen = 0 }
    /^skipped: / {
        list[++lines] = $0
        if (!seen++) skipped++
    }
    /^test .* \.\.\. ignored/ { list[++lines] = "skipped: " $2 " is marked as ignored" }
    END {
        if (lines == 0) print "Skipped tests: none"
        else print "Skipped tests:"
        for (i = 1; i <= lines; i++) print "  " list[i]
        printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped + ignored
        if (failed || binaries == 0) exit 1
        if (no_skip == "1" && skipped + ignored > 0) exit 1
    }
' "${1:?usage: scripts/count-tests.sh LOG}"
