"""Runs and tables of experiments that compare rows with a base over paired seeds: accuracy, loss, speed and bytes."""
import argparse
import dataclasses
import fnmatch
import os
import pathlib
import signal
import statistics
import sys

import report
import runs
import student

JOB = pathlib.Path("configs/lenet_mnist.yaml")
FULL_STEPS, SEEDS = 3000, 5


@dataclasses.dataclass(frozen=True)
class Table:
    """An experiment. Every (name, codec) is a row with settings of the form key=value."""
    title: str
    folder: pathlib.Path
    base: tuple
    rows: dict
    bars: dict  # by row: "gap", maximum in points; "bytes_percent", maximum in percent of the base's bytes


class UsageParser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def parse(argv, table):
    parser = UsageParser(prog=os.environ.get("TERN_EXPERIMENT", "compare.py"), allow_abbrev=False,
                   description="Finished runs are not repeated: stop at any time, and start again to continue.")
    parser.add_argument("--tern", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", help="run only cases that match: odsgd, 'odsgd*', pqasgd:ternary")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of seeds, from 1 ({SEEDS})")
    parser.add_argument("--steps", type=int, default=FULL_STEPS, help="number of steps of shorter runs, which use another folder")
    parser.add_argument("--jobs", type=int, default=1, help="number of simultaneous runs (1); more make the measured times longer")
    parser.add_argument("--out", help="the folder of all results")
    parser.add_argument("--table_only", "--table-only", action="store_true", help="print the table, and exit")
    options = parser.parse_args(argv)
    for pattern in options.only or []:
        if not any(matches(pattern, *key) for key in table.rows):
            parser.error(f"--only {pattern} matches none of {', '.join(':'.join(key) for key in table.rows)}")
    return options


def matches(pattern, name, codec):
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(f"{name}:{codec}", pattern)


class Experiment:
    def __init__(self, table, options):
        self.table = table
        self.options = options
        self.short = options.steps != FULL_STEPS
        self.folder = pathlib.Path(options.out or str(table.folder) + (f".{options.steps}_steps" if self.short else ""))

    def run_of(self, name, codec, seed):
        return runs.Run(name, seed, codec, JOB,
                        (*self.table.rows[name, codec], "workers.count=4", f"data.dir={self.options.data}",
                         f"train.steps={self.options.steps}", f"seed={seed}", f"exchange.codec={codec}"),
                        self.folder / name / f"seed_{seed}" / codec)

    def chosen(self):
        """Yields the runs: the first seed of all rows first, and always the base."""
        patterns = self.options.only or ["*"]
        for seed in range(1, self.options.seeds + 1):
            for name, codec in self.table.rows:
                if (name, codec) == self.table.base or any(matches(pattern, name, codec) for pattern in patterns):
                    yield self.run_of(name, codec, seed)

    def results(self, key):
        found = {seed: self.run_of(*key, seed).result() for seed in range(1, self.options.seeds + 1)}
        return {seed: result for seed, result in found.items() if result}


def bytes_a_sample(result):
    return (result["up_bytes"] + result["down_bytes"]) / result["samples"]


def row_of(key, results, base, is_base):
    paired = sorted(set(results) & set(base))
    gaps = [(base[seed]["accuracy"] - results[seed]["accuracy"]) * report.POINTS for seed in paired]
    bounds = student.interval(gaps)
    share = [100 * bytes_a_sample(results[seed]) / bytes_a_sample(base[seed]) for seed in paired]
    values = list(results.values())

    def mean(what):
        return statistics.fmean(what(value) for value in values)

    return {
        "gaps": gaps, "bytes_percent": max(share) if share else None,
        "cells": (
            ":".join(key), len(paired), report.mean_text([value["accuracy"] for value in values], 2, 100),
            report.mean_text([value.get("train_loss", float("nan")) for value in values], 4),
            report.mean_text(gaps, 3) if not is_base else "-",
            f"{bounds[0]:+.3f} to {bounds[1]:+.3f}" if bounds and not is_base else "-",
            f"{mean(lambda v: v['samples_per_s']):.0f}",
            f"{mean(lambda v: v['up_bytes'] / v['samples']):.0f}",
            f"{mean(lambda v: v['down_bytes'] / v['samples']):.0f}",
            f"{statistics.fmean(share):.2f}" if share else "-")}


def judge(key, row, table, wanted):
    base = " ".join(table.base)
    for name, bar in table.bars.get(key, {}).items():
        says = {"gap": f"mean gap to {base} at most {bar} points",
                "bytes_percent": f"at most {bar} % of {base}'s bytes a sample"}[name]
        if len(row["gaps"]) < wanted:
            yield (":".join(key), says, "-", f"not yet: {len(row['gaps'])} of {wanted} seeds")
            continue
        value = statistics.fmean(row["gaps"]) if name == "gap" else row[name]
        yield (":".join(key), says, f"{value:.3f}", "met" if value <= bar else "NOT met")


def print_table(experiment):
    """Prints the table. Returns whether a bar is missed."""
    table = experiment.table
    base = experiment.results(table.base)
    rows = {key: row_of(key, results, base, key == table.base)
            for key in table.rows if (results := experiment.results(key))}
    if not rows:
        print("no run is finished yet")
        return False
    verdicts = [verdict for key, row in rows.items() for verdict in judge(key, row, table, experiment.options.seeds)]
    text = "\n\n".join([
        f"# {table.title}: LeNet on MNIST, 4 workers, total batch 64, {experiment.options.steps} steps",
        "Accuracy in % of all test images (moving average of the weights); ± is the deviation over the seeds; gap =\n"
        f"{' '.join(table.base)} - this, in points, seed by seed, with the two-sided 95 % interval of its mean (Student's "
        "t). Loss:\nmean over the training images since the last comparison. Bytes a sample, headers included, and as a "
        f"share of\n{' '.join(table.base)}'s both ways.",
        report.table(("row", "seeds", "accuracy %", "loss", "gap", "95 % interval", "samples/s", "up B",
                      "down B", "bytes %"), [row["cells"] for row in rows.values()]),
        report.table(("row", "asked", "measured", "verdict"), verdicts) if verdicts and not experiment.short
        else "What is asked of the whole is not judged here."]) + "\n"
    experiment.folder.mkdir(parents=True, exist_ok=True)
    (experiment.folder / "table.md").write_text(text)
    print("\n" + text + f"\nwritten: {experiment.folder}/table.md")
    return not experiment.short and any(verdict[3] == "NOT met" for verdict in verdicts)


def main(table):
    """Runs the experiment. Returns the exit code of the script."""
    experiment = Experiment(table, parse(sys.argv[1:], table))
    if experiment.options.table_only:
        return 1 if print_table(experiment) else 0
    signal.signal(signal.SIGINT, runs.stop)
    signal.signal(signal.SIGTERM, runs.stop)
    wanted = list(experiment.chosen())
    waiting = [run for run in wanted if run.result() is None]
    print(f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished before; in {experiment.folder}",
          flush=True)

    def report_run(run, result, left):
        text = "FAILED" if result is None else f"accuracy {result['accuracy']:.4f}, {result['wall_s']:.0f} s"
        print(f"[{len(wanted) - left}/{len(wanted)}] {run.name}: {text}", flush=True)

    failures = runs.run_all(waiting, experiment.options.tern, experiment.options.jobs, report_run)
    missed = print_table(experiment)
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures or missed else 0
