"""ResNet-20 and CifarNet on CIFAR-10: fp32 and ternary of Tern, and a PyTorch twin, over paired seeds."""
import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys

import report
import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from processes import python_with  # noqa: E402

EPOCHS, EPOCH_STEPS = 10, 391
SEEDS = {"resnet20": 2, "cifarnet": 3}
ARMS = ("fp32", "ternary", "pytorch")
# Ten epochs need a higher learning rate than the sixty of the job file, and no weight decay.
SETTINGS = {"resnet20": (), "cifarnet": ("train.schedule.learning_rate=0.002", "train.weight_decay=")}
# (arm, baseline, points by which its mean accuracy may be lower)
BARS = (("fp32", "pytorch", 1.5), ("ternary", "fp32", 2.0))


@dataclasses.dataclass(frozen=True)
class TernRun(runs.Run):
    def read_summary(self):
        """Returns the summary, with the loss curve from the first worker's log."""
        log = "\n".join(file.read_text(errors="replace") for file in sorted(self.folder.glob("logs/tern_worker.worker.0.*.log")))
        line = re.compile(r"after step (\d+): test accuracy (\S+) of .* test loss ([^\s,]+).* training loss ([^\s,]+)")
        curve = [{"step": int(step), "accuracy": float(accuracy), "test_loss": float(test), "train_loss": float(training)}
                 for step, accuracy, test, training in line.findall(log)]
        return super().read_summary() | {"curve": curve}


@dataclasses.dataclass(frozen=True)
class TwinRun(runs.Run):
    def command(self, tern):
        words = [python_with("torch", "yaml", "numpy"), "-B", str(ROOT / "scripts/experiments/torch_twin.py"), str(self.job),
                 "--tern", str(tern), "--out", str(self.folder)]
        for setting in self.settings:
            words += ["--set", setting]
        return words

    def read_summary(self):
        return json.loads((self.folder / "twin.json").read_text())


class UsageParser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def parse():
    parser = UsageParser(prog=os.environ.get("TERN_EXPERIMENT", "cifar10.py"), allow_abbrev=False,
                   description="Finished runs are not repeated: stop at any time, and start again to continue.")
    parser.add_argument("--tern", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", help="run only runs that match NET:ARM: 'resnet20:*', '*:pytorch'")
    parser.add_argument("--seeds", type=int, help="number of seeds per net, from 1 (default: its own number)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"number of epochs ({EPOCHS}); other numbers use another folder")
    parser.add_argument("--out", help="the folder of all results")
    parser.add_argument("--dry_run", "--dry-run", action="store_true", help="list the runs and whether they are finished, and exit")
    parser.add_argument("--table_only", "--table-only", action="store_true", help="print the table, and exit")
    options = parser.parse_args()
    for name in ("seeds", "epochs"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}, expected 1 or more")
    rows = [f"{net}:{arm}" for net in SEEDS for arm in ARMS]
    for pattern in options.only or []:
        if not fnmatch.filter(rows, pattern):
            parser.error(f"--only {pattern} matches none of {', '.join(rows)}")
    return options


class Experiment:
    def __init__(self, options):
        self.options = options
        self.short = options.epochs != EPOCHS
        self.folder = pathlib.Path(options.out or "out/experiments/cifar10" + (f".{options.epochs}_epochs" if self.short else ""))

    def seeds(self, net):
        return range(1, (self.options.seeds or SEEDS[net]) + 1)

    def run_of(self, net, arm, seed):
        shared = (*SETTINGS[net], f"train.epochs={self.options.epochs}", f"seed={seed}", f"data.dir={self.options.data}")
        own = () if arm == "pytorch" else (f"exchange.codec={arm}", f"evaluation.every_steps={EPOCH_STEPS}",
                                           "evaluation.ema_decay=0")
        return (TwinRun if arm == "pytorch" else TernRun)(
            net, seed, arm, pathlib.Path(f"configs/cifar10_{net}.yaml"), (*shared, *own),
            self.folder / net / f"seed_{seed}" / arm)

    def chosen(self):
        """Yields the runs: the first seed of all cases first, the faster net first."""
        for seed in range(1, max(max(self.seeds(net)) for net in SEEDS) + 1):
            for net in sorted(SEEDS):
                for arm in ARMS:
                    if seed in self.seeds(net) and any(fnmatch.fnmatch(f"{net}:{arm}", pattern)
                                                       for pattern in self.options.only or ["*"]):
                        yield self.run_of(net, arm, seed)

    def results(self, net, arm):
        """Returns the finished results by seed."""
        found = {seed: self.run_of(net, arm, seed).result() for seed in self.seeds(net)}
        return {seed: result for seed, result in found.items() if result}


def paired(ours, theirs):
    """Returns by how many points `ours` are below `theirs`, seed by seed."""
    return [(theirs[seed]["accuracy"] - ours[seed]["accuracy"]) * report.POINTS for seed in ours if seed in theirs]


def rows_of(net, results):
    for arm, found in results.items():
        values = list(found.values())
        if not values:
            continue
        gaps = [report.mean_text(paired(found, results[other]), 2) for other in ("pytorch", "fp32")]
        yield (net, arm, len(values), report.mean_text([value["accuracy"] for value in values], 2, 100), *gaps,
               report.mean_text([value["curve"][-1]["train_loss"] for value in values], 4),
               report.mean_text([value["curve"][-1]["test_loss"] for value in values], 4),
               report.mean_text([value["train_s"] for value in values], 0),
               "-" if arm == "pytorch" else "agree" if all(value["replicas_agree"] for value in values) else "DIFFER")


def verdicts_of(net, results, wanted):
    for arm, other, bar in BARS:
        gaps = paired(results[arm], results[other])
        says = f"{arm} at most {bar} points below {other}, mean"
        if len(gaps) < wanted:
            yield net, says, "-", f"not yet: {len(gaps)} of {wanted} seeds"
            continue
        gap = statistics.fmean(gaps)
        yield net, says, f"{gap:+.2f}", f"met, by {bar - gap:.2f}" if gap <= bar else f"NOT met, by {gap - bar:.2f}"


def print_tables(experiment):
    """Returns whether a bar is missed."""
    by_net = {net: {arm: experiment.results(net, arm) for arm in ARMS} for net in SEEDS}
    if not any(found for results in by_net.values() for found in results.values()):
        print("no run is finished yet")
        return False
    verdicts = [row for net, results in by_net.items() for row in verdicts_of(net, results, SEEDS[net])]
    text = "\n\n".join([
        f"# CIFAR-10, 2 workers, {experiment.options.epochs} epochs, total batch 128, rate annealed to zero",
        "Accuracy in % of all 10,000 test images after the last step, raw weights; ± is the deviation over the seeds; below: in\n"
        "points, seed by seed. Training loss: of the last epoch (pytorch), since the last comparison (fp32, ternary). s: seconds\n"
        "of training and of the evaluations.",
        report.table(("net", "arm", "seeds", "accuracy %", "below pytorch", "below fp32", "training loss", "test loss", "s",
                      "replicas"), [row for net, results in by_net.items() for row in rows_of(net, results)]),
        "A shorter form: what is asked of the whole is not judged." if experiment.short
        else report.table(("net", "asked", "measured", "verdict"), verdicts)]) + "\n"
    (experiment.folder / "table.md").write_text(text)
    curves = {net: {arm: [result["curve"] for result in found.values()] for arm, found in results.items() if found}
              for net, results in by_net.items() if any(results.values())}
    (experiment.folder / "curves.json").write_text(json.dumps({"epoch_steps": EPOCH_STEPS, "nets": curves}))
    print("\n" + text + f"\nwritten: {experiment.folder}/table.md")
    draw(experiment.folder)
    return not experiment.short and any(row[3].startswith("NOT") for row in verdicts)


def draw(folder):
    python = python_with("matplotlib")
    if python is None:
        print("no pictures: no Python here has matplotlib (Debian: python3-matplotlib)")
        return
    subprocess.run([python, "-B", str(ROOT / "scripts/experiments/curves.py"), str(folder / "curves.json"), str(folder)],
                   check=True)


def main():
    experiment = Experiment(parse())
    wanted = list(experiment.chosen())
    waiting = [run for run in wanted if run.result() is None]
    if experiment.options.dry_run:
        for run in wanted:
            print(f"{'to run  ' if run in waiting else 'finished'}  {run.name}")
        return 0
    if experiment.options.table_only:
        return 1 if print_tables(experiment) else 0
    signal.signal(signal.SIGINT, runs.stop)
    signal.signal(signal.SIGTERM, runs.stop)
    print(f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished before; in {experiment.folder}", flush=True)
    if any(isinstance(run, TwinRun) for run in waiting) and python_with("torch", "yaml", "numpy") is None:
        print("no twin: no Python here has PyTorch, PyYAML and NumPy (Debian: python3-torch)")
        waiting = [run for run in waiting if not isinstance(run, TwinRun)]

    def report_run(run, result, left):
        text = "FAILED" if result is None else f"accuracy {result['accuracy']:.4f}, {result['wall_s']:.0f} s"
        print(f"[{len(wanted) - left}/{len(wanted)}] {run.name}: {text}", flush=True)

    failures = runs.run_all(waiting, experiment.options.tern, 1, report_run)
    missed = print_tables(experiment)
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures or missed else 0


if __name__ == "__main__":
    sys.exit(main())
