"""Experiments that may contradict a paper: rows of runs over paired seeds, of which two have a planted fault.

A module of this folder describes one experiment as a Claim and calls main(). Margins and seeds stand there before the first run.
The record keeps the figures of finished runs, so an experiment may be run in pieces, and on several machines.
"""
import argparse
import collections
import csv
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import paired
import report
import runs
import student

HOLDS, CONTRADICTED, UNDECIDED, NO_POWER = "the paper holds", "the paper is contradicted", "undecided", "the table has no power"
LEVEL = 0.05  # of the tests of one table together
PATIENT = ("faults.suspect_after_s=20", "faults.dead_after_s=60", "faults.start_timeout_s=300")  # on a busy machine, too
# The folders of tests/mutants beside bin, and what is wrong there.
FAULTS = {"mutant_ignored_worker": "worker 0 ignored", "mutant_truncated_noise": "4 bits of noise"}


@dataclasses.dataclass(frozen=True)
class Row:
    """The runs with these settings, one a seed. Those of a mutant have other programs and must differ from row `fault_in`."""
    name: str
    settings: tuple  # of key=value
    seeds: tuple
    programs: str = "bin"
    fault_in: str = ""


@dataclasses.dataclass(frozen=True)
class Claim:
    """An experiment. `rows` takes the figures of the runs that have ended, {row name: {seed: figures}}, so that later rows may depend
    on earlier ones; of a run that diverged they are {"diverged": True}. `judge` takes those of the others, and returns one of the
    verdicts above and the results as Markdown."""
    name: str
    title: str
    job: pathlib.Path
    rows: collections.abc.Callable
    judge: collections.abc.Callable


def mutants(of):
    """Returns `of` once with each fault."""
    return [dataclasses.replace(of, name=f"{of.name}, {what}", programs=folder, fault_in=of.name) for folder, what in FAULTS.items()]


def figures_of(run, summary):
    """Returns what is kept of a run: its figures, and [step, test loss] of every evaluation; of one that diverged only that; None of
    one that failed (`summary` is None)."""
    if summary is None:
        try:
            return {"diverged": True} if run.read_summary()["code"] == runs.DIVERGED else None
        except (OSError, ValueError, KeyError):
            return None
    kept = {key: summary.get(key) for key in ("accuracy", "test_loss", "train_loss", "samples", "up_bytes", "down_bytes",
                                              "mean_staleness", "parameters_hash")}
    with open(run.folder / "curve.csv") as file:
        points = [(int(row["step"]), float(row["test_loss"])) for row in csv.DictReader(file) if row["test_loss"]]
    return kept | {"curve": [[step, round(loss, 5)] for step, loss in points]}


def origin_of(tern):
    """Returns what else the bits of a run depend on: the commit of the programs, and the processor, by which libraries choose code."""
    version = subprocess.run([tern, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    commit = re.search(r"commit (\w+)", version)
    facts = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE))
    processor = "{model name} (family {cpu family}, model {model})".format_map(facts) if len(facts) == 3 else "a processor without a name"
    return f"commit {commit[1] if commit else 'not named'}, {processor}"


class Experiment:
    def __init__(self, claim, options):
        self.claim, self.options = claim, options
        self.folder = pathlib.Path(options.out or f"out/experiments/{claim.name}")
        self.record_path = pathlib.Path(options.record or self.folder / "record.json")
        self.data = (f"data.dir={pathlib.Path(options.data).resolve()}",) if options.data else ()
        self.record = json.loads(self.record_path.read_text()) if self.record_path.exists() else {}

    def run_of(self, row, seed):
        name = row.name.replace(" ", "_").replace(",", "").replace("/", "_")
        return runs.Run(row.name, seed, "", self.claim.job, (*row.settings, *PATIENT, *self.data, *self.options.set, f"seed={seed}"),
                        self.folder / name / f"seed_{seed}")

    def key(self, row, seed):
        """Names a run by all that it depends on but the programs' version and the place of the data."""
        run = self.run_of(row, seed)
        run = dataclasses.replace(run, settings=tuple(word for word in run.settings if not word.startswith("data.dir=")))
        identity = json.dumps([run.identity(), row.programs])
        return f"{row.name} | {seed} | {hashlib.sha256(identity.encode()).hexdigest()[:16]}"

    def found(self):
        """Returns the rows, {row name: {seed: figures}} of finished runs that did not diverge, and the runs to do, the first seeds first."""
        ended, rows = {}, []
        while (more := self.claim.rows(ended)) != rows:  # until no further row depends on how others ended
            rows = more
            ended = {row.name: {seed: self.record[self.key(row, seed)] for seed in row.seeds if self.key(row, seed) in self.record}
                     for row in rows}
        todo = [(row, seed) for row in rows for seed in row.seeds if seed not in ended[row.name]]
        found = {name: {seed: figures for seed, figures in of_seed.items() if "diverged" not in figures} for name, of_seed in ended.items()}
        return rows, found, sorted(todo, key=lambda run: run[1])

    def keep(self, row, seed, figures, origin):
        if figures is None:
            return
        self.record[self.key(row, seed)] = figures | {"origin": origin}
        self.record_path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(self.record.items()))
        temporary = self.record_path.with_suffix(".new")
        temporary.write_text("{\n" + lines + "\n}\n")
        temporary.replace(self.record_path)

    def run_pieces(self):
        """Runs what is missing until the time is over. Returns the messages of failed runs."""
        end = time.monotonic() + 60 * self.options.minutes
        origin = origin_of(self.options.build / "bin/tern")
        failures = []
        while not failures and time.monotonic() < end:
            _, _, todo = self.found()
            todo = todo[:self.options.jobs]
            if not todo:
                break
            begin = time.monotonic()
            rows = {self.run_of(row, seed): (row, seed) for row, seed in todo}
            by_programs = collections.defaultdict(list)
            for run, (row, _) in rows.items():
                by_programs[row.programs].append(run)
            failed = []
            for programs, some in by_programs.items():
                failed += runs.run_all(some, self.options.build / programs / "tern", self.options.jobs,
                                       lambda run, summary, _: self.keep(*rows[run], figures_of(run, summary), origin))
            if any(self.key(*row) not in self.record for row in rows.values()):
                failures = failed  # Those of runs that diverged are no failures if their figures are kept.
            for run in rows:
                print(f"{run.name}: {time.monotonic() - begin:.0f} s, {len(self.found()[2])} runs left", flush=True)
        return failures

    def text(self):
        """Returns the results file. Its first line has the verdict."""
        rows, found, todo = self.found()
        total = sum(len(row.seeds) for row in rows)
        self.check_faults(rows, found)
        verdict, body = self.claim.judge(found)
        if todo:
            verdict = f"{total - len(todo)} of {total} runs, no verdict"
        diverged = [f"{row.name} ({count} of {len(row.seeds)})" for row in rows
                    if (count := sum("diverged" in self.record.get(self.key(row, seed), {}) for seed in row.seeds))]
        body += "\n\nDiverged, and not in the tables: " + "; ".join(diverged) if diverged else ""
        origins = collections.Counter(self.record[self.key(row, seed)].get("origin", "not kept") for row in rows for seed in row.seeds
                                      if self.key(row, seed) in self.record)
        body += "\n\nPrograms and processors, with their runs: " + "; ".join(f"{origin}: {count}" for origin, count in sorted(origins.items()))
        body += (f"\n\n{datetime.date.today()}. Nothing is timed. `scripts/experiments/claim.sh {self.claim.name} "
                 f"--record bench/results/{self.claim.name}.json` has every run's figures in that file, and goes on with the runs that it lacks.")
        return f"# {self.claim.title}: {verdict}\n\n{body}\n"

    @staticmethod
    def check_faults(rows, found):
        for row in rows:
            for seed, figures in found[row.name].items() if row.fault_in else ():
                other = found.get(row.fault_in, {}).get(seed)
                if other and other["parameters_hash"] == figures["parameters_hash"]:
                    sys.exit(f"{row.name} seed {seed} ends with the weights of {row.fault_in}, expected other ones: its programs have "
                             "no fault; build the target mutants")


def paired_values(found, name, base, value):
    """Returns value(figures of row `name`) - value(figures of row `base`), seed by seed."""
    mine, other = found.get(name, {}), found.get(base, {})
    return [value(mine[seed]) - value(other[seed]) for seed in sorted(set(mine) & set(other))]


def interval_text(values, digits):
    bounds = student.interval(values)
    return f"{bounds[0]:+.{digits}f} to {bounds[1]:+.{digits}f}" if bounds else "-"


def mean_text(values, digits):
    return f"{statistics.fmean(values):+.{digits}f}" if values else "-"


def judge_mutants(found, base, value, digits):
    """Returns whether each fault in row `base` is told apart from it by value(figures), and the table that shows it."""
    names = [f"{base}, {what}" for what in FAULTS.values()]
    values = [paired_values(found, name, base, value) for name in names]
    adjusted = student.holm([student.p_different(each) for each in values])
    told = [p < LEVEL for p in adjusted]
    cells = [(name, len(each), mean_text(each, digits), interval_text(each, digits), f"{p:.2g}", "told apart" if is_told else "NOT told apart")
             for name, each, p, is_told in zip(names, values, adjusted, told)]
    return all(told), report.table(("planted fault", "seeds", f"against {base}", "95 % interval", "p (Holm)", ""), cells)


def judge_statements(told, stated):
    """Takes what a paper says: (statement, its values, the p-value of the test that it holds, that of the test of its contrary). Returns
    the verdict, and the table. The paper holds if every statement does, and is contradicted if one is. Both families of tests have
    Holm's correction. `told`: whether the table has power."""
    holds, contrary = (student.holm([statement[i] for statement in stated]) for i in (2, 3))
    cells = [(name, len(values), mean_text(values, 2), interval_text(values, 2), f"{p:.2g}", f"{q:.2g}",
              "holds" if p < LEVEL else "contradicted" if q < LEVEL else UNDECIDED)
             for (name, values, *_), p, q in zip(stated, holds, contrary)]
    verdict = NO_POWER if not told else CONTRADICTED if min(contrary) < LEVEL else HOLDS if max(holds) < LEVEL else UNDECIDED
    return verdict, report.table(("statement", "seeds", "points", "95 % interval", "p (Holm)", "p of the contrary", ""), cells)


def parse(claim, argv):
    parser = paired.UsageParser(prog=os.environ.get("TERN_EXPERIMENT", claim.name), allow_abbrev=False,
                                description=f"{claim.title}. Finished runs are not repeated.")
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", help="the folder of the data (that of the job)")
    parser.add_argument("--minutes", type=float, default=120, help="starts no run after this time (120)")
    parser.add_argument("--jobs", type=int, default=1, help="number of simultaneous runs (1)")
    parser.add_argument("--out", help="the folder of the runs and the table")
    parser.add_argument("--record", help="the file with the figures of finished runs (record.json in that folder)")
    parser.add_argument("--set", action="append", default=[], help="one more setting of all runs, key=value")
    parser.add_argument("--dry_run", "--dry-run", action="store_true", help="list the runs to do, and exit")
    parser.add_argument("--table_only", "--table-only", action="store_true", help="print the table, and exit")
    return parser.parse_args(argv)


def main(claim):
    """Runs the experiment. Returns the exit code of the script."""
    experiment = Experiment(claim, parse(claim, sys.argv[1:]))
    if experiment.options.dry_run:
        for row, seed in experiment.found()[2]:
            print(f"{row.name} seed {seed}: {' '.join(row.settings)}")
        return 0
    signal.signal(signal.SIGINT, runs.stop)
    signal.signal(signal.SIGTERM, runs.stop)
    failures = [] if experiment.options.table_only else experiment.run_pieces()
    text = experiment.text()
    experiment.folder.mkdir(parents=True, exist_ok=True)
    (experiment.folder / "table.md").write_text(text)
    print(f"\n{text}\nwritten: {experiment.folder}/table.md")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0
