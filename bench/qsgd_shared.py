#!/usr/bin/env python3
"""Sums of codes of several bits with shared norms (qsgd_shared): the server's sum beside a one-pass fp32 sum, and the error
of the mean over its bytes beside qsgd, for eight workers. Sums are timed by the CPU time of their thread. Prints tables in
Markdown (bench/results/qsgd_shared.md). GRADIENTS is a file of real_gradients.py.

  qsgd_shared.py FOLDER_OF_PROGRAMS [GRADIENTS] [--parts sums,errors] [--elements 134217728] [--repetitions 5]
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

GOALS = {2: 6, 4: 3.5, 8: 1.9}
NAMES = {"qsgd": "`qsgd`, `sums: coded`", "qsgd_exact": "`qsgd`, `sums: exact`", "qsgd_shared": "`qsgd_shared`",
         "qsgd_shared_ans": "`qsgd_shared_ans`"}


def run(*words):
    return json.loads(subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout)


def print_sums(options):
    """Returns whether a goal is missed."""
    speeds = {row["target"]: row for row in run(options.folder / "speed_targets", "--elements", options.elements,
                                                "--repetitions", options.repetitions, "--cpu_time", 1)}
    print("| bits | fp32 sum over the sum of codes: median | lowest, highest | goal |\n|---|---|---|---|")
    missed = False
    for bits, goal in GOALS.items():
        row = speeds[f"sum_qsgd_shared_{bits}_vs_fp32"]
        missed |= row["value"] < goal
        print(f"| {bits} | {row['value']:.3g} | {min(row['samples']):.3g}, {max(row['samples']):.3g} | at least {goal} |")
    print(f"\nternary_2bit in the same run: {speeds['sum_ternary_2bit_vs_fp32']['value']:.3g}\n")
    return missed


def both_ways(row):
    return 8 * (row["up"] + row["down"])


def error_at(rows, bits):
    """Returns the error at this number of bits per element both ways, between two rows by its logarithm; None outside."""
    points = sorted((both_ways(row), math.log(row["error"])) for row in rows)
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= bits <= x1:
            return math.exp(y0 + (y1 - y0) * (bits - x0) / (x1 - x0))
    return None


def print_errors(options):
    rows = run(options.folder / "sum_errors", *([options.gradients] if options.gradients else []))
    for gradients in dict.fromkeys(row["gradients"] for row in rows):
        mine = {name: [row for row in rows if (row["gradients"], row["codec"]) == (gradients, name)] for name in NAMES}
        print(f"\nGradients: {'real' if gradients == 'real' else 'Gaussian, correlation ' + gradients}\n")
        print("| bits | " + " | ".join(f"{name}: up, down | error" for name in NAMES.values()) + " |\n|---|" + "---|---|" * len(NAMES))
        for of_bits in zip(*mine.values()):
            print(f"| {of_bits[0]['bits']} | " + " | ".join(f"{8 * row['up']:.2f}, {8 * row['down']:.2f} | {row['error']:.3g}"
                                                           for row in of_bits) + " |")
        print("\n| `qsgd`, `sums: coded`, bits both ways | its error | `qsgd_shared` at as many / it | `qsgd_shared_ans` / it |\n"
              "|---|---|---|---|")
        for row in mine["qsgd"]:
            others = (error_at(mine[name], both_ways(row)) for name in ("qsgd_shared", "qsgd_shared_ans"))
            texts = (f"{error / row['error']:.2f}" if error else "-" for error in others)
            print(f"| {both_ways(row):.2f} | {row['error']:.3g} | {' | '.join(texts)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("gradients", nargs="?")
    parser.add_argument("--parts", default="sums,errors")
    parser.add_argument("--elements", type=int, default=134217728)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    missed = "sums" in options.parts and print_sums(options)
    if "errors" in options.parts:
        print_errors(options)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
