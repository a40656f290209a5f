#!/usr/bin/env python3
"""Measures what keys cost: rounds of 61.1 million parameters (as link.py's) with `security: curve` beside the same with
`security: none`, in turns, with the CPU seconds of all daemons.

  keys.py BIN_FOLDER [--rates_mbit 100,1000] [--codecs fp32,ternary_ans] [--rounds 5] [--repeats 2] [--json FILE]
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

import link
import processes
import targets


def make_keys(bin_folder, folder, job, settings=()):
    words = [bin_folder / "tern", "keys", "make", folder, "--job", job, *(word for one in settings for word in ("--set", one))]
    subprocess.run(words, check=True, capture_output=True)


def median_of(runs, key):
    return statistics.median(run[key] for run in runs)


def cpu_seconds(run, count):
    """Returns the CPU seconds of all daemons per round."""
    return sum(run["cpu_s"]) / count


def at_rate(rate, options, keys, figures):
    place = processes.Namespaces(link.WORKERS, rate)
    try:
        print(f"\n## {rate} Mbit/s each way\n\n| wire | without keys, s | with keys, s | ratio | CPU s a round | with keys |")
        print("|---|---|---|---|---|---|")
        for codec in options.codecs:
            count = 2 if rate <= 200 and codec in link.FLOATS else options.rounds
            runs = {"none": [], "curve": []}
            for _ in range(options.repeats):
                for security, more in (("none", ()), ("curve", ("security=curve", f"keys.dir={keys}"))):
                    runs[security].append(link.rounds(place, options, codec, count, more))
            plain, locked = median_of(runs["none"], "seconds"), median_of(runs["curve"], "seconds")
            cpu = {name: statistics.median(cpu_seconds(run, count) for run in each) for name, each in runs.items()}
            print(f"| {codec} | {plain:.3f} | {locked:.3f} | {locked / plain:.3f} | {cpu['none']:.2f} | {cpu['curve']:.2f} |",
                  flush=True)
            figures.add(f"keys_{rate}_{codec}", locked / plain, note=f"{plain:.3f} s, with keys {locked:.3f} s; CPU "
                        f"{cpu['none']:.2f} and {cpu['curve']:.2f} s")
    finally:
        place.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rates_mbit", default="100,1000")
    parser.add_argument("--codecs", default="fp32,ternary_ans")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    options.codecs = options.codecs.split(",")
    figures = targets.Figures()
    try:
        with tempfile.TemporaryDirectory(prefix="tern_bench.") as folder:
            keys = pathlib.Path(folder) / "keys"
            make_keys(options.bin, keys, link.JOB, [f"workers.count={link.WORKERS}"])
            for rate in map(int, options.rates_mbit.split(",")):
                at_rate(rate, options, keys, figures)
    except processes.Unavailable as why:
        print(f"skipped: {why}")
    figures.write(options.json)
    print("\n" + figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
