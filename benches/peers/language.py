"""Language models: how fast, against whom? firstword and its peers on the same weights, in one alternated run.

Every contestant answers the same prompt (512 tokens by default, 128 new ones, greedy, the end of text ignored) in a
process of its own, pinned to as many cores as it has threads, after a warm-up that shares no prefix with the prompt.
Contestants take turns within a round and the order rotates. Reported: wall-clock TTFT and TPOT as the median over the
rounds with the least and greatest, the peak of resident memory, and ours over theirs within each round.

Beside TPOT stands the share of the memory's bandwidth that it reaches: the bytes of weights that a token needs (of the
file, without the embedding where it is not the output matrix too) over TPOT, over what one pass of numpy's sum over
half a GiB reads with one thread, measured in the same run.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

from peers import processor

HERE = pathlib.Path(__file__).parent
MEASURES = ("ttft", "tpot", "rss", "load")


def run(command, cores):
    """Runs a contestant. Returns what it reports, with its peak of resident memory in MiB."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": str(len(cores))},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        text=True,
    )
    printed, complaint = wait(process)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{complaint}")
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    return {**json.loads(lines[-1]), "rss": process.usage.ru_maxrss / 1024}


def wait(process):
    """Reads both pipes to their ends and the child's own resource use."""
    complaint = []
    reader = threading.Thread(target=lambda: complaint.append(process.stderr.read()))
    reader.start()
    printed = process.stdout.read()
    reader.join()
    _, status, process.usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return printed, complaint[0]


def contestants(options):
    """Name → command without the prompt: ours for each folder, the peers on what they read."""
    ours = {f"firstword {label}": [str(options.ours), str(folder)] for label, folder in options.folder}
    peer = [sys.executable, str(HERE / "language_contestants.py")]
    exact = str(dict(options.folder).get("exact", options.folder[0][1]))
    theirs = {
        "llama.cpp": [*peer, "llama.cpp", str(options.gguf)],
        "onnxruntime-genai": [*peer, "onnxruntime-genai", exact],
        "openvino-genai": [*peer, "openvino-genai", str(options.gguf)],
    }
    chosen = {**ours, **theirs}
    if options.only:
        chosen = {name: command for name, command in chosen.items() if any(text in name for text in options.only)}
    return chosen


def measure(options):
    """{threads: {contestant: [result of each round]}}"""
    names = contestants(options)
    results = {threads: {name: [] for name in names} for threads in options.threads}
    order = list(names)
    for number in range(options.rounds):
        turn = number % len(order)
        for threads in options.threads:
            cores = set(sorted(os.sched_getaffinity(0))[-threads:])
            for name in order[turn:] + order[:turn]:
                command = [*names[name], str(options.prompt), str(options.new), str(threads)]
                results[threads][name].append(run(command, cores))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return results


def bandwidth():
    """Bytes per second that one thread reads: the best of five passes over half a GiB."""
    import numpy

    data = numpy.ones(1 << 26, numpy.float64)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        data.sum()
        best = min(best, time.perf_counter() - begin)
    return data.nbytes / best


def spread(values):
    return statistics.median(values), min(values), max(values)


def summarise(results):
    rows, ratio_rows = [], []
    for threads, runs in results.items():
        for name, each in runs.items():
            row = {"threads": threads, "contestant": name}
            row.update({what: spread([one[what] for one in each]) for what in MEASURES})
            rows.append(row)
        for ours in (name for name in runs if name.startswith("firstword")):
            for peer in (name for name in runs if not name.startswith("firstword")):
                row = {"threads": threads, "ours": ours, "peer": peer}
                for what in MEASURES[:3]:
                    row[what] = spread([a[what] / b[what] for a, b in zip(runs[ours], runs[peer])])
                rows_agree = [agreement(a["tokens"], b["tokens"]) for a, b in zip(runs[ours], runs[peer])]
                row["same_tokens"] = min(rows_agree)
                ratio_rows.append(row)
    return rows, ratio_rows


def agreement(ours, theirs):
    """How many tokens are the same before the first difference."""
    same = 0
    for a, b in zip(ours, theirs):
        if a != b:
            break
        same += 1
    return same


def show(rows, ratio_rows, speed):
    print(f"{'':2}{'':28} {'TTFT s':>22} {'TPOT ms':>22} {'RSS MiB':>8} {'load s':>7}")
    threads = None
    for row in rows:
        if row["threads"] != threads:
            threads = row["threads"]
            print(f"{threads} thread{'s' if threads > 1 else ''}")
        ttft = "{:.3f} ({:.3f}-{:.3f})".format(*row["ttft"])
        tpot = "{:.1f} ({:.1f}-{:.1f})".format(*(1e3 * value for value in row["tpot"]))
        print(f"  {row['contestant']:28} {ttft:>22} {tpot:>22} {row['rss'][0]:8.0f} {row['load'][0]:7.2f}")
    if ratio_rows:
        print("\nours / peer (median, least and greatest of the rounds)")
        print(f"  {'threads':7} {'':22}   {'':18} {'TTFT':>18} {'TPOT':>18} {'RSS':>18} same tokens")
    for row in ratio_rows:
        each = ["{:.2f} ({:.2f}-{:.2f})".format(*row[what]) for what in MEASURES[:3]]
        print(
            f"  {row['threads']:7} {row['ours']:22} / {row['peer']:18} {each[0]:>18} {each[1]:>18} {each[2]:>18}"
            f" {row['same_tokens']:11}"
        )
    print(f"\none thread reads {speed / 1e9:.1f} GB/s here")
    for row in rows:
        if row.get("bytes"):
            share = row["bytes"] / row["tpot"][0] / speed
            print(f"  {row['contestant']:28} {row['threads']} threads: {share:.0%} of it")


def labelled(text):
    label, _, folder = text.partition("=")
    if not folder:
        raise argparse.ArgumentTypeError(f"{text}: expected LABEL=FOLDER")
    return label, pathlib.Path(folder)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", type=pathlib.Path, required=True, help="our binary language_cost")
    parser.add_argument("--gguf", type=pathlib.Path, required=True, help="the weights as GGUF, for those that read it")
    parser.add_argument(
        "--folder",
        type=labelled,
        action="append",
        required=True,
        metavar="LABEL=FOLDER",
        help="an import of it; the one labelled exact is what onnxruntime-genai runs",
    )
    parser.add_argument("--prompt", type=pathlib.Path, required=True, help="JSON list of the prompt's token ids")
    parser.add_argument("--new", type=int, default=128, help="tokens to make [default: 128]")
    parser.add_argument("--rounds", type=int, default=5, help="alternations [default: 5]")
    parser.add_argument("--threads", type=int, action="append", help="[default: 1 and 2]")
    parser.add_argument("--only", action="append", metavar="TEXT", help="contestants whose name contains TEXT")
    parser.add_argument("--json", type=pathlib.Path, help="write all runs and the summary into this file")
    options = parser.parse_args()
    options.threads = options.threads or [1, 2]
    if options.rounds < 1 or options.new < 2:
        parser.error("--rounds must be at least 1, --new at least 2")
    return options


def main():
    options = arguments()
    results = measure(options)
    rows, ratio_rows = summarise(results)
    for row in rows:
        row["bytes"] = results[row["threads"]][row["contestant"]][0].get("bytes")
    speed = bandwidth()
    show(rows, ratio_rows, speed)
    if options.json:
        report = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "processor": processor(),
            "versions": {
                name: importlib.metadata.version(name)
                for name in ("llama-cpp-python", "onnxruntime-genai", "openvino-genai")
            },
            "bandwidth": speed,
            "rounds": options.rounds,
            "summary": rows,
            "ratios": ratio_rows,
            "runs": results,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
