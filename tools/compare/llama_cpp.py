#!/usr/bin/env python3
"""Times `bonsai bench` and llama.cpp's `llama-bench` on the same files, in turns, and prints a table.

A round runs both programs on a model, and every other round in the opposite order: whichever runs second finds
another machine (clocks, neighbours). What is printed is each program's median over the rounds. README.md beside this
says how to come by a llama-bench.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys


def positive(text):
    """A number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found '{text}'")
    return int(text)


def run(command):
    """The standard output of a command; ends the program with one line where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {reason[-1] if reason else 'no message'}")
    return done.stdout


def bonsai(options, model):
    """Tokens per second of the prompt and of decoding."""
    report = json.loads(run([options.bonsai, "bench", "-m", model, "-t", str(options.threads), "-r", "1", "--json",
                             "-p", str(options.prompt), "-n", str(options.predict), "-d", str(options.depth),
                             "--kv", options.kv]))
    return report["prefill"]["tokens_per_second"], report["decode"]["tokens_per_second"]


def llama(options, model):
    """Tokens per second of the prompt and of decoding."""
    tests = [["-p", str(options.prompt), "-n", "0"], ["-p", "0", "-n", str(options.predict), "-d", str(options.depth)]]
    speeds = []
    for test in tests:
        report = json.loads(run([options.llama_bench, "-m", model, "-t", str(options.threads), "-r", "1", "-o", "json",
                                 "-fa", "1", "-ctk", options.kv, "-ctv", options.kv, *test]))
        speeds.append(report[0]["avg_ts"])
    return tuple(speeds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="FILE", help="models, GGUF files that both programs know")
    parser.add_argument("--llama-bench", required=True, metavar="PROGRAM", help="llama.cpp's llama-bench")
    parser.add_argument("--bonsai", default="build/bin/bonsai", metavar="PROGRAM", help="(%(default)s)")
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="of both (%(default)s)")
    parser.add_argument("--prompt", type=positive, default=128, metavar="N", help="tokens of the prompt (%(default)s)")
    parser.add_argument("--predict", type=positive, default=32, metavar="N", help="tokens to decode (%(default)s)")
    parser.add_argument("--depth", type=int, default=0, metavar="N", help="tokens before them (%(default)s)")
    parser.add_argument("--kv", default="f16", choices=["f16", "q8_0"], help="type of keys and values (%(default)s)")
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="(%(default)s)")
    options = parser.parse_args()

    programs = {"bonsai": bonsai, "llama": llama}
    print("| model | prompt, tokens/s: llama.cpp | Bonsai | ratio | decoding, tokens/s: llama.cpp | Bonsai | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for model in options.models:
        speeds = {name: [] for name in programs}
        for index in range(options.rounds):
            for name in list(programs) if index % 2 == 0 else reversed(programs):
                speeds[name].append(programs[name](options, model))
        cells = [pathlib.Path(model).stem]
        for part in range(2):
            theirs, ours = (statistics.median(pair[part] for pair in speeds[name]) for name in ("llama", "bonsai"))
            cells += [f"{theirs:.1f}", f"{ours:.1f}", f"{ours / theirs:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
