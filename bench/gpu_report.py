"""The table of gpu_check.py: rows of targets, what they were measured on, and what an earlier part left in its folder."""
import contextlib
import datetime
import json
import pathlib
import shutil
import threading

import gpu_targets
import targets

# No deeper than one folder below --out: a machine that is lent may give back only files near the top of its output folder.
TABLE, PLANS = "gpu_check.json", "tern/plans.json"


class Report:
    """The rows of this run, and those of earlier parts. Threads may write it, but must not add the same row."""

    def __init__(self, out, part):
        self.out, self.part = pathlib.Path(out), part
        self.figures = targets.Figures(gpu_targets.GPU_TARGETS)
        self.begun = datetime.datetime.now(datetime.timezone.utc)
        self.about = {}
        self.bench = {}  # what gpu_bench printed, by name
        self.earlier_rows, self.earlier_runs = {}, []
        self.lock = threading.Lock()

    def take_over(self, folder):
        """Takes the rows, the figures of gpu_bench and the plans of cuDNN of an earlier part from its --out. What is not
        there or not readable is left out."""
        folder = pathlib.Path(folder)
        with contextlib.suppress(OSError, ValueError, KeyError):
            table = json.loads((folder / TABLE).read_text())
            rows, runs, bench = table["targets"], table["runs"], table["gpu_bench"]
            self.earlier_rows = {key: row for key, row in rows.items() if key in gpu_targets.GPU_TARGETS}
            self.earlier_runs, self.bench = runs, bench
        plans = self.out / PLANS
        if (folder / PLANS).exists() and not plans.exists():
            plans.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / PLANS, plans)

    def rows(self):
        """The rows in the table's order. An earlier row stays unless this run has a result for it."""
        rows = {}
        for key in gpu_targets.GPU_TARGETS:
            new, old = self.figures.rows.get(key), self.earlier_rows.get(key)
            if new is not None and (new["verdict"] != "not measured" or old is None or old["verdict"] == "not measured"):
                rows[key] = {**new, "run": len(self.earlier_runs)}
            elif old is not None:
                rows[key] = old
        return rows

    def missed(self):
        """The keys of this run's rows that missed their bar or failed."""
        return self.figures.missed()

    def runs(self):
        return [*self.earlier_runs, {"begun": f"{self.begun:%Y-%m-%d %H:%M} UTC", "part": self.part, "about": self.about}]

    def text(self):
        ordered = targets.Figures(gpu_targets.GPU_TARGETS)
        ordered.rows = self.rows()
        lines = []
        for run in self.runs():
            part = f" --part {run['part']}" if run["part"] else ""
            lines += [f"Measured {run['begun']} by `scripts/gpu_check.sh{part}`.", ""]
            lines += [*(f"- {key}: {value}" for key, value in run["about"].items()), ""]
        return "\n".join(lines) + "\n" + ordered.table() + "\n"

    def write(self):
        """Writes the table as JSON and Markdown; a reader finds the old or the new one, whenever this process is killed."""
        with self.lock:
            table = {"runs": self.runs(), "targets": self.rows(), "gpu_bench": self.bench}
            for name, text in ((TABLE, json.dumps(table, indent=1, default=str) + "\n"), ("gpu_check.md", self.text())):
                new = self.out / f"{name}.new"
                new.write_text(text)
                new.replace(self.out / name)
