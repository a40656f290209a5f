#!/usr/bin/env python3
"""Theorem 1 of TernGrad on a convex problem (convex.cc), with and without its clip. Prints bench/results/convex.md.

  convex.py FOLDER_OF_PROGRAMS [--seeds 8] [--steps 30000] [--from FILE, which has what `convex` printed]
"""
import argparse
import datetime
import json
import math
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/experiments"))
import report  # noqa: E402
import student  # noqa: E402

# All of this was fixed before the first run of full length.
SLOPE, MARGIN, LEVEL = -1.0, 0.1, 0.05  # of log error over log step, at a rate of 1 / t
BASE, TAILS = "ternary", ("symmetric", "skewed")
MUTANTS = ("ternary, worker 0 ignored", "ternary, 4 bits of noise")


def slope(points):
    """Returns the slope of log error over log step by least squares."""
    x, y = [math.log(step) for step, _ in points], [math.log(error) for _, error in points]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def interval_text(values):
    low, high, _ = student.interval(values)
    return f"{statistics.fmean(values):.2f} ({low:.2f} to {high:.2f})"


def judge(slopes):
    """Returns the verdict, from {(row, tails): slopes}."""
    of_theorem = [slopes[BASE, tails] for tails in TAILS]
    told = student.holm([student.p_different([a - b for a, b in zip(slopes[row, "skewed"], slopes[BASE, "skewed"])]) for row in MUTANTS])
    if max(told) >= LEVEL:
        return "the table has no power"
    if min(student.holm([student.p_above(values, SLOPE + MARGIN) for values in of_theorem])) < LEVEL:
        return "the paper is contradicted"
    holds = max(student.holm([student.p_equivalent([value - SLOPE for value in values], MARGIN) for values in of_theorem])) < LEVEL
    return "the paper holds" if holds else "undecided"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30000)
    parser.add_argument("--from", dest="file", type=pathlib.Path)
    options = parser.parse_args()
    text = options.file.read_text() if options.file else subprocess.run(
        [str(options.programs / "bench/convex"), str(options.seeds), str(options.steps)], check=True, capture_output=True, text=True).stdout
    runs = json.loads(text)
    rows = list(dict.fromkeys(run["row"] for run in runs))
    slopes, errors = {}, {}
    for run in runs:
        slopes.setdefault((run["row"], run["tails"]), []).append(slope(run["errors"]))
        errors.setdefault((run["row"], run["tails"]), []).append(run["errors"][-1][1])
    print(f"# Theorem 1 of TernGrad on a convex problem: {judge(slopes)}\n")
    print(f"""Four workers with data of their own, 1,024 parameters, squared distances, rate 1 / t (`bench/convex.cc` has the problem); each row of
{len(slopes[BASE, TAILS[0]])} seeds and {runs[0]["errors"][-1][0]:,} steps. Convergence at the rate of fp32 is a slope of {SLOPE:g} of the logarithm of the
squared distance from the minimum over that of the step, in the last nine tenths of the steps; an error that stays is a slope of 0. The
theorem is about the row {BASE}, which has no clip: its slope is to be within {MARGIN:g} of {SLOPE:g} for both kinds of noise (two one-sided
tests, Holm). The rows with planted faults must differ from it. Slopes: means and 95 % intervals.
""")
    cells = [(row, *(text for tails in TAILS for text in (
        interval_text(slopes[row, tails]), f"{statistics.fmean(errors[row, tails]):.3g}",
        f"{statistics.fmean(errors[row, tails]) / statistics.fmean(errors['fp32', tails]):.1f}"))) for row in rows]
    print(report.table(("row", *(text for tails in TAILS for text in (
        f"{tails} noise: slope", "last squared distance", "over that of fp32"))), cells))
    print(f"""
With symmetric noise the clip only helps: it takes nothing from the mean, and leaves less variance. With skewed noise it moves the
point at which the mean of the codes is zero. A rotation makes the values nearly Gaussian, so that the clip is symmetric again.

{datetime.date.today()}. Nothing is timed. `bench/convex.py build/cpu` repeats it, in some ten minutes on one core.""")


if __name__ == "__main__":
    main()
