"""Every algorithm beside synchronous SGD with fp32: accuracy, loss, speed and bytes over paired seeds."""
import argparse
import fnmatch
import json
import os
import pathlib
import signal
import statistics
import sys

import report
import runs
import student

FOLDER = pathlib.Path("out/experiments/algorithms_mnist")
JOB = pathlib.Path("configs/lenet_mnist.yaml")
BASE = ("ssgd", "fp32")
FULL_STEPS, SEEDS = 3000, 5

# Scalers that nobody shares, where pushes do not wait for each other or servers read them alone.
OWN = "exchange.scaler=per_worker"
# No momentum under delay, and a rate for each push; softsync's are means.
PLAIN = "train.optimizer.name=sgd train.schedule.learning_rate=0.02"
MEANS = "train.optimizer.name=sgd train.schedule.learning_rate=0.05"
# Name: settings of both codecs, settings of ternary (None: no ternary).
CASES = {
    "ssgd": ("train.algorithm=ssgd", ""),
    "ssgd/central": ("train.algorithm=ssgd train.parameters=central", OWN),
    "ssgd/backup": ("train.algorithm=ssgd train.ssgd.backup_workers=1", ""),
    "odsgd": ("train.algorithm=odsgd train.odsgd.warmup_steps=200", ""),
    "odsgd/dcasgd_c": ("train.algorithm=odsgd train.odsgd.local.name=dcasgd_c", ""),
    "odsgd/dcasgd_a": ("train.algorithm=odsgd train.odsgd.local.name=dcasgd_a train.odsgd.local.lambda=2", ""),
    "odsgd/central": ("train.algorithm=odsgd train.parameters=central", OWN),
    "asgd": (f"train.algorithm=asgd {PLAIN}", OWN),
    "dcasgd_c": (f"train.algorithm=dcasgd_c {PLAIN}", OWN),
    "dcasgd_a": (f"train.algorithm=dcasgd_a train.dcasgd_a.lambda=2 {PLAIN}", OWN),
    "ssp": (f"train.algorithm=ssp {PLAIN}", OWN),
    "softsync": (f"train.algorithm=softsync train.softsync.n=2 {MEANS}", OWN),
    "psgd": ("train.algorithm=psgd", None),
    "rsgd": ("train.algorithm=rsgd", None),
    "pqasgd": ("train.algorithm=pqasgd train.pqasgd.p=8", "exchange.clip=none"),
    "easgd": ("train.algorithm=easgd", None),
    "easgd_async": ("train.algorithm=easgd_async", None),
}
# (case, codec): what is asked of it.
BARS = {
    ("odsgd", "ternary"): {"gap": 0.25},
    ("pqasgd", "ternary"): {"gap": 0.3, "bytes_percent": 1.6},
}


class Words(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def parse(argv):
    parser = Words(prog=os.environ.get("TERN_EXPERIMENT", "algorithms.py"), allow_abbrev=False,
                   description="Runs that are finished are not run again: stop at any time and start again to go on.")
    parser.add_argument("--tern", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", help="run only cases that match: odsgd, 'odsgd*', pqasgd:ternary")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many, from 1 ({SEEDS})")
    parser.add_argument("--steps", type=int, default=FULL_STEPS, help="shorter runs, in a folder of their own")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at once (1); times are then longer")
    parser.add_argument("--out", help="the folder for all of it")
    parser.add_argument("--table_only", "--table-only", action="store_true", help="print the table, and leave")
    options = parser.parse_args(argv)
    for pattern in options.only or []:
        if not any(matches(pattern, *key) for key in keys()):
            parser.error(f"--only {pattern} matches none of {', '.join(':'.join(key) for key in keys())}")
    return options


def keys():
    for name, (_, ternary) in CASES.items():
        yield name, "fp32"
        if ternary is not None:
            yield name, "ternary"


def matches(pattern, name, codec):
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(f"{name}:{codec}", pattern)


class Experiment:
    def __init__(self, options):
        self.options = options
        self.short = options.steps != FULL_STEPS
        self.folder = pathlib.Path(options.out or str(FOLDER) + (f".{options.steps}_steps" if self.short else ""))

    def run_of(self, name, codec, seed):
        both, ternary = CASES[name]
        words = both.split() + (ternary.split() if codec == "ternary" else [])
        return runs.Run(name, seed, codec, JOB,
                        (*words, "workers.count=4", f"data.dir={self.options.data}",
                         f"train.steps={self.options.steps}", f"seed={seed}", f"exchange.codec={codec}"),
                        self.folder / name / f"seed_{seed}" / codec)

    def chosen(self):
        """The first seed of everything first; the base always."""
        patterns = self.options.only or ["*"]
        for seed in range(1, self.options.seeds + 1):
            for name, codec in keys():
                if (name, codec) == BASE or any(matches(pattern, name, codec) for pattern in patterns):
                    yield self.run_of(name, codec, seed)

    def results(self, key):
        found = {seed: self.run_of(*key, seed).result() for seed in range(1, self.options.seeds + 1)}
        return {seed: result for seed, result in found.items() if result}


def bytes_a_sample(result):
    return (result["up_bytes"] + result["down_bytes"]) / result["samples"]


def row_of(key, results, base):
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
            report.mean_text(gaps, 3) if key != BASE else "-",
            f"{bounds[0]:+.3f} to {bounds[1]:+.3f}" if bounds and key != BASE else "-",
            f"{mean(lambda v: v['samples_per_s']):.0f}",
            f"{mean(lambda v: v['up_bytes'] / v['samples']):.0f}",
            f"{mean(lambda v: v['down_bytes'] / v['samples']):.0f}",
            f"{statistics.fmean(share):.2f}" if share else "-")}


def judge(key, row, wanted):
    for name, bar in BARS.get(key, {}).items():
        says = {"gap": f"mean gap to ssgd fp32 at most {bar} points",
                "bytes_percent": f"at most {bar} % of ssgd fp32's bytes a sample"}[name]
        if len(row["gaps"]) < wanted:
            yield (":".join(key), says, "-", f"not yet: {len(row['gaps'])} of {wanted} seeds")
            continue
        value = statistics.fmean(row["gaps"]) if name == "gap" else row[name]
        yield (":".join(key), says, f"{value:.3f}", "met" if value <= bar else "NOT met")


def print_table(experiment):
    """Whether a bar is missed."""
    base = experiment.results(BASE)
    rows = {key: row_of(key, results, base) for key in keys() if (results := experiment.results(key))}
    if not rows:
        print("nothing is finished yet")
        return False
    verdicts = [verdict for key, row in rows.items() for verdict in judge(key, row, experiment.options.seeds)]
    text = "\n\n".join([
        f"# Every algorithm: LeNet on MNIST, 4 workers, total batch 64, {experiment.options.steps} steps",
        "Accuracy in % of all test images (moving average of the weights); ± is the deviation over the seeds; gap =\n"
        "ssgd fp32 - this, in points, seed by seed, with the two-sided 95 % interval of its mean (Student's t). Loss:\n"
        "mean over the training images since the last comparison. Bytes a sample, headers included, and as a share of\n"
        "ssgd fp32's both ways.",
        report.table(("algorithm:codec", "seeds", "accuracy %", "loss", "gap", "95 % interval", "samples/s", "up B",
                      "down B", "bytes %"), [row["cells"] for row in rows.values()]),
        report.table(("algorithm", "asked", "measured", "verdict"), verdicts) if verdicts and not experiment.short
        else "What is asked of the whole is not judged here."]) + "\n"
    experiment.folder.mkdir(parents=True, exist_ok=True)
    (experiment.folder / "table.md").write_text(text)
    print("\n" + text + f"\nwritten: {experiment.folder}/table.md")
    return not experiment.short and any(verdict[3] == "NOT met" for verdict in verdicts)


def main():
    experiment = Experiment(parse(sys.argv[1:]))
    if experiment.options.table_only:
        return 1 if print_table(experiment) else 0
    signal.signal(signal.SIGINT, runs.stop)
    signal.signal(signal.SIGTERM, runs.stop)
    wanted = list(experiment.chosen())
    waiting = [run for run in wanted if run.result() is None]
    print(f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished before; in {experiment.folder}",
          flush=True)

    def tell(run, result, left):
        told = "FAILED" if result is None else f"accuracy {result['accuracy']:.4f}, {result['wall_s']:.0f} s"
        print(f"[{len(wanted) - left}/{len(wanted)}] {run.name}: {told}", flush=True)

    failures = runs.run_all(waiting, experiment.options.tern, experiment.options.jobs, tell)
    missed = print_table(experiment)
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures or missed else 0


if __name__ == "__main__":
    sys.exit(main())
