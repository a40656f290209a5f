#!/usr/bin/env python3
"""Sums of codes of several bits with shared norms (qsgd_shared): the server's sum beside a one-pass fp32 sum, and the error
of the mean over its bytes beside qsgd, for eight workers. Sums are timed by the CPU time of their thread. Prints tables in
Markdown (bench/results/qsgd_shared.md).

  qsgd_shared.py FOLDER_OF_PROGRAMS [--elements 134217728] [--repetitions 5]
"""
import argparse
import json
import pathlib
import subprocess
import sys

GOALS = {2: 6, 4: 3.5, 8: 1.9}
NAMES = {"qsgd": "`qsgd`, `sums: coded`", "qsgd_exact": "`qsgd`, `sums: exact`", "qsgd_shared": "`qsgd_shared`"}


def run(*words):
    return json.loads(subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--elements", type=int, default=134217728)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    speeds = {row["target"]: row for row in run(options.folder / "speed_targets", "--elements", options.elements,
                                                "--repetitions", options.repetitions, "--cpu_time", 1)}
    print("| bits | fp32 sum over the sum of codes: median | lowest, highest | goal |\n|---|---|---|---|")
    missed = False
    for bits, goal in GOALS.items():
        row = speeds[f"sum_qsgd_shared_{bits}_vs_fp32"]
        missed |= row["value"] < goal
        print(f"| {bits} | {row['value']:.3g} | {min(row['samples']):.3g}, {max(row['samples']):.3g} | at least {goal} |")
    ternary = speeds["sum_ternary_2bit_vs_fp32"]["value"]
    print(f"\nternary_2bit in the same run: {ternary:.3g}\n")
    print("| codec | bits | bits per element up, down | error at correlation 0 | 0.5 | 0.9 |\n|---|---|---|---|---|---|")
    rows = run(options.folder / "sum_errors")
    for bits in GOALS:
        for codec, name in NAMES.items():
            by_correlation = {row["correlation"]: row for row in rows if (row["codec"], row["bits"]) == (codec, bits)}
            first = by_correlation[0.0]
            errors = " | ".join(f"{by_correlation[correlation]['error']:.3f}" for correlation in (0.0, 0.5, 0.9))
            print(f"| {name} | {bits} | {8 * first['up']:.2f}, {8 * first['down']:.2f} | {errors} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
