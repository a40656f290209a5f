"""A paired experiment: cases x seeds x {fp32, ternary}. The two runs of a pair have the same seed and the same batches.

The scripts in this folder pass the cases and the bars; users pass the other options.
"""
import argparse
import fnmatch
import os
import pathlib
import signal
import sys

import report
import runs


class UsageParser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def parse(argv):
    parser = UsageParser(prog=os.environ.get("TERN_EXPERIMENT", "paired.py"), allow_abbrev=False,
                   formatter_class=argparse.RawDescriptionHelpFormatter,
                   description="Finished runs are not repeated: stop at any time, and start again to continue.")
    # Options from the script.
    for name in ("--title", "--folder", "--job", "--tern"):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--full_steps", type=int, required=True, help=argparse.SUPPRESS)
    # NAME SEEDS KEY=VALUE...; +SEEDS: the case is not run, and shown only if it was run before.
    parser.add_argument("--case", action="append", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--bar", action="append", default=[], help=argparse.SUPPRESS)  # NAME=VALUE
    parser.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)
    # Options from the user.
    parser.add_argument("--seeds_from", type=int, default=1, help="first seed (1)")
    parser.add_argument("--seeds_to", type=int, help="last seed of every case (default: its own)")
    parser.add_argument("--only", action="append", help="run only cases that match: momentum/2, 'momentum/*'")
    parser.add_argument("--steps", type=int, help="number of steps of shorter runs, which use another folder")
    parser.add_argument("--jobs", type=int, default=1, help="number of simultaneous runs (1); more make the measured times longer")
    parser.add_argument("--out", help="the folder of all results")
    parser.add_argument("--dry_run", action="store_true", help="list the runs and whether they are finished, and exit")
    parser.add_argument("--table_only", action="store_true", help="print the tables of the finished runs, and exit")
    words = []
    for word in argv:  # accepts --dry-run for --dry_run
        name, equals, value = word.partition("=")
        words.append(name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else word)
    options = parser.parse_args(words)
    for name in ("seeds_from", "seeds_to", "steps", "jobs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} is {value}, expected 1 or more")
    if options.seeds_to is not None and options.seeds_to < options.seeds_from:
        parser.error(f"--seeds_to is {options.seeds_to}, expected {options.seeds_from} or more")
    names = [words[0] for words in map(str.split, options.case) if words[1][0] != "+"]
    for pattern in options.only or []:
        if not fnmatch.filter(names, pattern):
            parser.error(f"--only {pattern} matches no case; there are {', '.join(names)}")
    return options


class Experiment:
    def __init__(self, options):
        self.options = options
        self.short = options.steps is not None and options.steps != options.full_steps
        folder = options.folder + (f".{options.steps}_steps" if self.short else "")
        self.folder = pathlib.Path(options.out or folder)
        # (name, seeds, settings, whether it is optional)
        self.cases = [(words[0], int(words[1]), words[2:], words[1][0] == "+")
                      for words in map(str.split, options.case)]

    def run_of(self, case, settings, seed, codec):
        steps = self.options.steps or self.options.full_steps
        return runs.Run(case, seed, codec, pathlib.Path(self.options.job),
                        (*settings, *self.options.set, f"train.steps={steps}", f"seed={seed}",
                         f"exchange.codec={codec}"),
                        self.folder / case / f"seed_{seed}" / codec)

    def seeds(self, wanted):
        return range(self.options.seeds_from, (self.options.seeds_to or wanted) + 1)

    def chosen(self):
        """Yields the runs that the options select: the first seed of all cases first."""
        only = self.options.only or ["*"]
        cases = [(case, self.seeds(wanted), settings) for case, wanted, settings, optional in self.cases
                 if not optional and any(fnmatch.fnmatch(case, pattern) for pattern in only)]
        for seed in sorted({seed for _, seeds, _ in cases for seed in seeds}):
            for case, seeds, settings in cases:
                if seed in seeds:
                    yield from (self.run_of(case, settings, seed, codec) for codec in report.CODECS)

    def found(self):
        """Returns the finished results of all cases."""
        cases = []
        for case, wanted, settings, optional in self.cases:
            seeds = sorted(int(folder.name[5:]) for folder in (self.folder / case).glob("seed_*"))
            results = {(seed, codec): self.run_of(case, settings, seed, codec).result()
                       for seed in seeds for codec in report.CODECS}
            finished = {key: result for key, result in results.items() if result}
            cases.append(report.Case(case, wanted, optional, finished))
        return cases

    def print_tables(self):
        """Whether a bar is missed."""
        cases = self.found()
        bars = [(name, float(value)) for name, value in (bar.split("=") for bar in self.options.bar)]
        text, missed = report.make(self.options.title, cases, bars, self.short)
        if any(case.results for case in cases):
            (self.folder / "table.md").write_text(text)
            (self.folder / "results.json").write_text(report.as_json(self.options.title, cases, machine()))
            text += f"\nwritten: {self.folder}/table.md, {self.folder}/results.json"
        print("\n" + text)
        return missed

    def run_chosen(self):
        """Runs the selected cases. Returns the messages of the runs that failed."""
        wanted = list(self.chosen())
        waiting = [run for run in wanted if run.result() is None]
        print(f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished before; in {self.folder}", flush=True)
        seconds = []

        def report_run(run, result, left):
            place = f"[{len(wanted) - left}/{len(wanted)}] {run.name}: "
            if result is None:
                print(place + "FAILED", flush=True)
                return
            seconds.append(result["wall_s"])
            minutes = sum(seconds) / len(seconds) * left / self.options.jobs / 60
            loss = f", training loss {result['train_loss']:.4f}" if "train_loss" in result else ""
            print(f"{place}accuracy {result['accuracy']:.4f}{loss}, {result['wall_s']:.0f} s; "
                  f"about {minutes:.0f} min left", flush=True)

        return runs.run_all(waiting, self.options.tern, self.options.jobs, report_run)


def machine():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": os.cpu_count()}


def main():
    experiment = Experiment(parse(sys.argv[1:]))
    if experiment.options.dry_run:
        for run in experiment.chosen():
            print(f"{'finished' if run.result() else 'to run  '}  {run.name}")
        return 0
    if experiment.options.table_only:
        return 1 if experiment.print_tables() else 0
    signal.signal(signal.SIGINT, runs.stop)
    signal.signal(signal.SIGTERM, runs.stop)
    failures = experiment.run_chosen()
    missed = experiment.print_tables()
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures or missed else 0


if __name__ == "__main__":
    sys.exit(main())
