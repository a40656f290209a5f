"""Runs scripts/experiments/claim.sh with a program instead of `tern` that answers at once.

  claims_test.py SOURCE_DIR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(SOURCE / "scripts/experiments"))
import linear_speedup  # noqa: E402: found by the line above
import student  # noqa: E402

# Writes the figures that a server would write. Codec fp32 has a training loss of about 0.2; other codecs have LOSS more, and programs
# with a fault FAULT more.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
settings = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--set")
folder = pathlib.Path(settings["output_dir"])
programs = pathlib.Path(sys.argv[0]).parent.name
with open(os.environ["CALLS"], "a") as calls:
    calls.write(programs + " " + " ".join(words) + "\\n")
fault, ternary = programs != "bin", settings["exchange.codec"] != "fp32"
seed, workers = int(settings["seed"]), int(settings.get("workers.count", 2))
loss = 0.2 + seed / 1000 + ternary * float(os.environ.get("LOSS", "0")) * (1 + seed / 10)
loss += fault * float(os.environ.get("FAULT", "0.1")) * (1 + seed / 10)
figures = {"samples": 1000, "up_bytes": 1000, "down_bytes": 4000, "code": 0, "accuracy": 1.1 - loss, "train_loss": loss, "test_loss": loss,
           "mean_staleness": 3.5, "parameters_hash": programs if os.environ.get("FAULT") != "0" else "same"}
(folder / "server.0.json").write_text(json.dumps(figures))
steps = int(settings.get("train.steps", 3000))
every = int(settings.get("evaluation.every_steps", steps))
# The loss falls from 2.3 to 1 in 1600 / N steps, and to 0.43 in twice as many.
rate = 0.833 / 1600 * workers * (1 - fault * float(os.environ.get("FAULT", "0.1"))) * (1 + seed * (1 + workers % 3) / 1000)
rows = [f"{step},,{2.3 * 2.718281828 ** (-rate * step)},0.5," for step in range(every, steps + 1, every)]
(folder / "curve.csv").write_text("step,training_loss,test_loss,accuracy,top5_accuracy\\n" + "\\n".join(rows) + "\\n")
"""


class Claims(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="tern_claims.")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        for programs in ("bin", "mutant_ignored_worker", "mutant_truncated_noise"):
            (self.folder / programs).mkdir()
            for name in ("tern", "tern_server", "tern_worker"):
                (self.folder / programs / name).write_text(PROGRAM)
                (self.folder / programs / name).chmod(0o755)

    def run_claim(self, *words, out="out", code=0, **environment):
        done = subprocess.run([SOURCE / "scripts/experiments/claim.sh", *words, "--out", self.folder / out], text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, TERN_BUILD_DIR=str(self.folder), CALLS=str(self.folder / "calls"), **environment))
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def verdict(self, out="out"):
        return (self.folder / out / "table.md").read_text().splitlines()[0]

    def test_runs_everything_once_and_goes_on_elsewhere_from_the_record(self):
        record = ("--record", self.folder / "kept.json")
        self.run_claim("dgc", "--minutes", "0.02", "--jobs", "2", *record)
        self.assertRegex(self.verdict(), r"^# Deep .*: \d+ of 120 runs, no verdict$")
        self.run_claim("dgc", "--jobs", "8", *record, out="elsewhere")
        self.assertEqual(len(self.calls()), 120)
        self.assertEqual(len(set(self.calls())), 120)
        self.assertEqual(sum(call.startswith("mutant") for call in self.calls()), 10)
        self.assertRegex(self.verdict("elsewhere"), "the paper holds$")
        self.run_claim("dgc", *record)
        self.assertEqual(len(self.calls()), 120)
        self.assertEqual(len(json.loads((self.folder / "kept.json").read_text())), 120)

    def test_a_loss_of_accuracy_contradicts(self):
        out = self.run_claim("dgc", "--jobs", "8", LOSS="0.01")
        self.assertRegex(self.verdict(), "the paper is contradicted$")
        self.assertRegex(out, r"topk 0.001, correction, masking, clip .*\| worse")

    def test_a_table_that_does_not_notice_a_fault_has_no_power(self):
        self.run_claim("dgc", "--jobs", "8", FAULT="0.00000001")
        self.run_claim("dgc", "--table_only")
        self.assertRegex(self.verdict(), "the paper holds$")  # the fault is small, but the same with every seed
        out = self.run_claim("dgc", "--jobs", "8", out="none", code=1, FAULT="0")
        self.assertIn("its programs have no fault", out)

    def test_linear_speedup_finds_the_slope(self):
        self.run_claim("linear_speedup", "--jobs", "8")
        self.assertRegex(self.verdict(), "the paper holds$")
        table = (self.folder / "out" / "table.md").read_text()
        self.assertRegex(table, r"\| fp32 +\| N +\| 5 .* -1\.00\d +\|")

    def test_asynchrony_tunes_the_rate_before_it_compares(self):
        out = self.run_claim("asynchrony", "--dry_run")
        self.assertEqual(len(out.splitlines()), 11 * 5 * 2)
        self.run_claim("asynchrony", "--jobs", "8")
        self.assertEqual(len(self.calls()), 11 * (5 * 2 + 3) + 3 * 5)

    def test_every_claim_lists_its_runs(self):
        for name, runs in (("clip", (1 + 36 + 2) * 5), ("local_steps", (3 + 90 + 2) * 5), ("dgc", 120), ("linear_speedup", 53 * 5)):
            self.assertEqual(len(self.run_claim(name, "--dry_run").splitlines()), runs, name)
        self.assertIn("expected one of", self.run_claim("clap", code=64))

    def test_steps_to_a_loss_lie_between_evaluations(self):
        steps = linear_speedup.steps_to_loss({"curve": [[100, 2.0], [200, 0.5]]})
        self.assertAlmostEqual(steps, 150)  # the loss falls by the same factor in each step
        self.assertIsNone(linear_speedup.steps_to_loss({"curve": [[100, 2.0], [200, 1.5]]}))

    def test_student(self):
        values = [0.1, 0.2, 0.3]  # t = 0.2 / (0.1 / sqrt 3) = 3.464 with 2 degrees of freedom: p = 0.0742 on two sides
        self.assertAlmostEqual(student.p_different(values), 0.0742, places=4)
        self.assertAlmostEqual(student.p_above(values, 0), 0.0371, places=4)
        self.assertAlmostEqual(student.p_below(values, 0), 1 - 0.0371, places=4)
        self.assertAlmostEqual(student.p_equivalent(values, 0.4), 0.0371, places=4)
        self.assertEqual([round(p, 4) for p in student.holm([0.04, 0.01, 0.03])], [0.06, 0.03, 0.06])


if __name__ == "__main__":
    unittest.main()
