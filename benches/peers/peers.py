"""How fast, against whom: firstword and its peers on the same recordings, in one alternated run.

Every contestant transcribes each recording in a process of its own, pinned to one core, with the same weights
(Moonshine tiny-en). Contestants take turns within a round and the order rotates, so that whatever else the
machine does meets all of them. Reported: CPU seconds (user and system) for one second of sound, without
loading, as the median over the rounds with its least and greatest; word errors by Whisper's normaliser; and
ours over theirs as the median, least and greatest of the rounds' ratios.

What is charged. Everything between loaded models and text, by the process's own clock: for libraries from 16 kHz
samples in memory; for firstword (the last line of its --timings) reading and resampling the file as well, which
favours the peers.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import wave

from contestants import LIBRARIES

HERE = pathlib.Path(__file__).parent

# One thread for all. moonshine-voice has this setting of its own; without it two pools of threads spin on the one
# core, and its cost reads about twice what it is.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MOONSHINE_ORT_SINGLE_THREAD": "1"}

# What tells our contestants apart: arguments.
OURS = {
    "firstword batch": [],
    "firstword partials 0.3 s": ["--partials"],
}

TEXTS = {
    "beckett.wav": "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "two_cities.wav": (
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
        "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it "
        "was the season of Darkness, it was the spring of hope, it was the winter of despair, we had everything "
        "before us, we had nothing before us, we were all going direct to Heaven, we were all going direct the "
        "other way - in short, the period was so far like the present period, that some of its noisiest "
        "authorities insisted on its being received, for good or for evil, in the superlative degree of comparison "
        "only."
    ),
}


def measured(command, core, environment=None, stderr=None):
    """Runs a command on one core. Returns its CPU seconds and what it printed."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, **ONE_THREAD, **(environment or {})},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        text=True,
    )
    printed = process.stdout.read()
    # wait4 and not RUSAGE_CHILDREN: this child's use and no other's.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, printed


def run_library(name, recording, options):
    command = [sys.executable, str(HERE / "contestants.py"), name, str(recording), str(options.silero)]
    whole, printed = measured(command, options.core)
    # The last line: a library may have said something before.
    return {**json.loads(printed.splitlines()[-1]), "process": whole}


def run_ours(name, recording, options):
    command = [str(options.firstword), "--threads", "1", "transcribe", "--format", "json", "--timings", *OURS[name]]
    # The interval that the contestant's name says, whatever the user's configuration.
    environment = {"FIRSTWORD_SPEECH_PARTIAL_INTERVAL": "300ms"}
    # The table of --timings goes to standard error, which is put into the same pipe: what is no JSON is the table.
    whole, printed = measured([*command, str(recording)], options.core, environment, stderr=subprocess.STDOUT)
    results = [line for line in printed.splitlines() if line.startswith("{")]
    text = " ".join(line["text"] for line in map(json.loads, results) if line["type"] == "final")
    transcribe = processor_seconds(printed)
    return {"load": whole - transcribe, "transcribe": transcribe, "text": text, "process": whole}


def processor_seconds(printed):
    """What the table says: the CPU time from the loaded models on, reading and resampling the file included."""
    seconds = re.search(r"([0-9.]+) s of sound in", printed)
    per_second = re.search(r"([0-9.]+) processor s per s of sound", printed)
    if not seconds or not per_second:
        raise SystemExit(f"firstword printed no table of timings:\n{printed}")
    return float(seconds[1]) * float(per_second[1])


def word_errors(normalise, reference, hypothesis):
    """Levenshtein distance over words, and the number of words of the reference."""
    reference, hypothesis = normalise(reference).split(), normalise(hypothesis).split()
    row = list(range(len(hypothesis) + 1))
    for i, expected in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, heard in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (expected != heard))
    return row[-1], len(reference)


def seconds_of(recording):
    with wave.open(str(recording)) as file:
        return file.getnframes() / file.getframerate()


def measure(options, recordings, contestants):
    """All rounds: {recording: {contestant: [result of each round]}}."""
    results = {file.name: {name: [] for name in contestants} for file in recordings}
    for number in range(options.rounds):
        for file in recordings:
            turn = number % len(contestants)
            for name in contestants[turn:] + contestants[:turn]:
                run = run_ours if name in OURS else run_library
                results[file.name][name].append(run(name, file, options))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return results


def summarise(options, recordings, results):
    from whisper_normalizer.english import EnglishTextNormalizer

    normalise = EnglishTextNormalizer()
    rows = []
    for file in recordings:
        seconds = seconds_of(file)
        for name, runs in results[file.name].items():
            costs = [run["transcribe"] / seconds for run in runs]
            rows.append(
                {
                    "recording": file.name,
                    "seconds": seconds,
                    "contestant": name,
                    "cpu_per_second": statistics.median(costs),
                    "least": min(costs),
                    "greatest": max(costs),
                    "load_cpu": statistics.median(run["load"] for run in runs),
                    "process_cpu": statistics.median(run["process"] for run in runs),
                    # Errors of each round: a contestant's text may differ from run to run.
                    "word_errors": sorted({word_errors(normalise, TEXTS[file.name], run["text"])[0] for run in runs}),
                    "words": word_errors(normalise, TEXTS[file.name], "")[1],
                }
            )
    return rows


def ratios(recordings, results):
    """Ours over theirs within each round."""
    rows = []
    for file in recordings:
        runs = results[file.name]
        for ours in (name for name in runs if name in OURS):
            for peer in (name for name in runs if name not in OURS):
                each = [a["transcribe"] / b["transcribe"] for a, b in zip(runs[ours], runs[peer])]
                rows.append(
                    {
                        "recording": file.name,
                        "ours": ours,
                        "peer": peer,
                        "ratio": statistics.median(each),
                        "least": min(each),
                        "greatest": max(each),
                    }
                )
    return rows


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def show(rows, ratio_rows):
    print(f"{'':28}  {'CPU-s per audio-s':^24}  {'load':>6}  {'process':>7}  word")
    print(f"{'':28}  {'median':>7} {'least':>7} {'greatest':>8}  {'CPU-s':>6}  {'CPU-s':>7}  errors")
    recording = None
    for row in rows:
        if row["recording"] != recording:
            recording = row["recording"]
            print(f"{recording} ({row['seconds']:.1f} s, {row['words']} words)")
        errors = "-".join(str(n) for n in (row["word_errors"][0], row["word_errors"][-1])[: len(row["word_errors"])])
        print(
            f"  {row['contestant']:26}  {row['cpu_per_second']:7.4f} {row['least']:7.4f} {row['greatest']:8.4f}"
            f"  {row['load_cpu']:6.3f}  {row['process_cpu']:7.3f}  {errors}"
        )
    if ratio_rows:
        print("\nours / peer (median, least and greatest of the rounds)")
    for row in ratio_rows:
        print(
            f"  {row['recording']:16} {row['ours']:26} / {row['peer']:28}"
            f"  {row['ratio']:5.2f}  {row['least']:5.2f} {row['greatest']:5.2f}"
        )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--firstword", type=pathlib.Path, help="our binary; without it only the peers run")
    parser.add_argument("--silero", type=pathlib.Path, required=True, help="folder with silero_vad.onnx")
    parser.add_argument("--rounds", type=int, default=5, help="alternations [default: 5]")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="core to run on [default: the last]")
    parser.add_argument("--only", action="append", metavar="TEXT", help="contestants whose name contains TEXT")
    parser.add_argument("--json", type=pathlib.Path, help="write all runs and the summary into this file")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def main():
    options = arguments()
    contestants = [*(OURS if options.firstword else ()), *LIBRARIES]
    if options.only:
        contestants = [name for name in contestants if any(text in name for text in options.only)]
    if not contestants:
        raise SystemExit(f"no contestant's name contains {' or '.join(options.only)}")
    from contestants import moonshine_folder

    recordings = [moonshine_folder().parent / name for name in TEXTS]
    results = measure(options, recordings, contestants)
    rows, ratio_rows = summarise(options, recordings, results), ratios(recordings, results)
    show(rows, ratio_rows)
    if options.json:
        report = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "processor": processor(),
            "versions": {
                name: importlib.metadata.version(name)
                for name in ("sherpa-onnx", "moonshine-voice", "whisper-normalizer")
            },
            "rounds": options.rounds,
            "summary": rows,
            "ratios": ratio_rows,
            "runs": results,
        }
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
