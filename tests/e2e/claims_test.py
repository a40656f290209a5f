"""Runs scripts/experiments/claim.sh with a program instead of `tern` that answers at once.

  claims_test.py SOURCE_DIR
"""
import argparse
import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
os.chdir(SOURCE)  # as claim.sh does
sys.path.insert(0, str(SOURCE / "scripts/experiments"))
import asynchrony  # noqa: E402: found by the line above
import claims  # noqa: E402
import dgc  # noqa: E402
import few_bits  # noqa: E402
import linear_speedup  # noqa: E402
import pipelining  # noqa: E402
import student  # noqa: E402

# Writes the figures and the curve that a run would write.
PROGRAM = """#!/bin/sh
case $1 in --version) echo "tern version 0.1.0, commit 0123abc, wire version 4"; exit; esac
echo "$(basename $(dirname $0)) $*" >> "$CALLS"
for word in "$@"; do case $word in output_dir=*) cd ${word#output_dir=};; esac; done
printf '{"samples": 1000, "up_bytes": 1000, "down_bytes": 4000, "code": 0, "accuracy": 0.9, "train_loss": 0.2, "test_loss": 0.3}' > server.0.json
printf 'step,training_loss,test_loss,accuracy,top5_accuracy\\n100,,0.3,0.9,\\n' > curve.csv
"""
PROGRAMS = ("bin", "mutant_ignored_worker", "mutant_truncated_noise")


class Claims(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="tern_claims.")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        for programs in PROGRAMS:
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
        words = ("dgc", "--jobs", "4", "--set", "train.steps=100", "--record", self.folder / "kept.json")
        self.run_claim(*words, "--minutes", "0.001")
        self.assertEqual(self.verdict(), "# Deep gradient compression at a ratio of 0.001: 4 of 120 runs, no verdict")
        self.run_claim(*words, "--minutes", "0.001", out="elsewhere")
        self.assertEqual(self.verdict("elsewhere"), "# Deep gradient compression at a ratio of 0.001: 8 of 120 runs, no verdict")
        self.assertEqual(len(set(self.calls())), 8)
        kept = json.loads((self.folder / "kept.json").read_text())
        self.assertEqual(len(kept), 8)
        self.assertTrue(all(run["origin"].startswith("commit 0123abc, ") for run in kept.values()), kept)
        self.assertRegex((self.folder / "elsewhere/table.md").read_text(), r"Programs and processors, .*: commit 0123abc, .*: 8\n")

    def test_runs_planted_faults_by_their_programs(self):
        claim = dataclasses.replace(dgc.CLAIM, rows=lambda _: [row for row in dgc.CLAIM.rows({}) if row.name.startswith("ternary")])
        experiment = claims.Experiment(claim, self.options())
        with mock.patch.dict(os.environ, CALLS=str(self.folder / "calls")):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(experiment.run_pieces(), [])
        programs = [call.split()[0] for call in self.calls()]
        self.assertEqual({name: programs.count(name) for name in programs}, dict.fromkeys(PROGRAMS, 5))
        for figures in experiment.record.values():
            figures["parameters_hash"] = "the same"
        with self.assertRaisesRegex(SystemExit, "have no fault"):
            experiment.text()

    def options(self):
        return argparse.Namespace(out=str(self.folder / "out"), record=None, set=[], data=None, jobs=8, minutes=2, build=self.folder)

    def judge(self, claim, figures):
        """Fills the record with figures(row, seed) and returns the results file, and the number of runs."""
        experiment = claims.Experiment(claim, self.options())
        while todo := experiment.found()[2]:
            for row, seed in todo:
                experiment.record[experiment.key(row, seed)] = {
                    "samples": 1000, "up_bytes": 1000, "down_bytes": 4000, "mean_staleness": 3.5, "parameters_hash": row.programs,
                    "curve": [], **figures(row, seed)}
        return experiment.text(), len(experiment.record)

    def test_judges_accuracy_against_the_margin(self):
        def figures(worse, fault=0.1):
            def of(row, seed):
                loss = 0.2 + seed / 1000 + (1 + seed / 10) * (fault * bool(row.fault_in) + worse * row.name.startswith("topk"))
                return {"train_loss": loss, "test_loss": loss, "accuracy": 1.1 - loss}
            return of
        self.assertRegex(self.judge(dgc.CLAIM, figures(-0.0001))[0], "^# .*: the paper holds\n")
        text, _ = self.judge(dgc.CLAIM, figures(0.01))
        self.assertRegex(text, "^# .*: the paper is contradicted\n")
        self.assertRegex(text, r"topk 0.001, correction, masking, clip .*\| worse")
        self.assertRegex(self.judge(dgc.CLAIM, figures(-0.0001, fault=0))[0], "^# .*: the table has no power\n")

    def test_linear_speedup_finds_the_slope(self):
        def figures(power):
            def of(row, seed):
                settings = dict(word.split("=", 1) for word in row.settings)
                workers, every = int(settings["workers.count"]), int(settings["evaluation.every_steps"])
                rate = 0.001 * workers ** power * (1 - 0.2 * bool(row.fault_in)) * (1 + seed * (1 + workers % 3) / 1000)
                return {"curve": [[step, 2.3 * math.exp(-rate * step)] for step in range(every, 5000, every)]}
            return of
        text, runs = self.judge(linear_speedup.CLAIM, figures(1))
        self.assertEqual(runs, 265)
        self.assertRegex(text, "^# .*: the paper holds\n")
        self.assertRegex(text, r"\| fp32 +\| N +\| 5 .* -1\.00\d +\|")
        self.assertRegex(self.judge(linear_speedup.CLAIM, figures(0.6))[0], "^# .*: the paper is contradicted\n")

    def test_runs_that_diverge_have_ended(self):
        def figures(row, seed):
            rate = float(dict(word.split("=", 1) for word in row.settings)["train.schedule.learning_rate"])
            loss = 1 / rate + seed / 1000
            return {"diverged": True} if rate > 0.05 else {"train_loss": loss, "test_loss": loss, "accuracy": 0.9}
        text, runs = self.judge(asynchrony.CLAIM, figures)
        self.assertEqual(runs, 11 * (5 * 2 + 3) + 3 * 5)
        self.assertIn("asgd, rate 0.1 (2 of 2)", text)
        self.assertIn("dcasgd_a, 2, rate 0.05", text)

    def test_asynchrony_tunes_the_rate_before_it_compares(self):
        def figures(row, seed):
            rate = float(dict(word.split("=", 1) for word in row.settings)["train.schedule.learning_rate"])
            loss = abs(rate - 0.05) + 0.2 + seed / 1000 + (1 + seed / 10) * (0.1 * bool(row.fault_in) + 0.01 * row.name.startswith("dc"))
            return {"train_loss": loss, "test_loss": loss, "accuracy": 1.1 - loss}
        text, runs = self.judge(asynchrony.CLAIM, figures)
        self.assertEqual(runs, 11 * (5 * 2 + 3) + 3 * 5)
        self.assertRegex(text, "^# .*: the paper is contradicted\n")
        self.assertIn("dcasgd_a, 2, rate 0.05", text)
        self.assertIn("Every best rate has a smaller and a larger one beside it", text)

    def test_asynchrony_says_whose_rate_is_not_tuned(self):
        best_of = {"asgd": 0.001, "easgd_async": 1}  # beyond the grid

        def figures(row, seed):
            rate = float(dict(word.split("=", 1) for word in row.settings)["train.schedule.learning_rate"])
            loss = abs(rate - best_of.get(row.name.split(", rate")[0], 0.05)) + 0.2 + seed / 1000 + 0.1 * bool(row.fault_in)
            return {"train_loss": loss, "test_loss": loss, "accuracy": 1.1 - loss}
        text, _ = self.judge(asynchrony.CLAIM, figures)
        notes = [line for line in text.splitlines() if line.endswith("of the rates")]
        self.assertEqual(notes, ["* asgd: 0.01 is the smallest of the rates", "* easgd_async: 0.2 is the largest of the rates"])

    def test_every_claim_lists_its_runs(self):
        for name, runs in (("clip", (1 + 36 + 2) * 5), ("local_steps", (3 + 77 + 2) * 5), ("dgc", 120), ("linear_speedup", 53 * 5), ("outer", 12 * 5),
                           ("outer_cifar10", 8 * 3), ("few_bits", (15 + 2) * 3), ("pipelining", (1 + 8 + 1 + 2) * 3)):
            self.assertEqual(len(self.run_claim(name, "--dry_run").splitlines()), runs, name)
        self.assertIn("expected one of", self.run_claim("clap", code=64))

    def test_statements_hold_together_and_are_contradicted_alone(self):
        gap_of = {few_bits.BASE: 0, few_bits.FAULTY: 0.4, "qsgd, 2 bits, 128": 1.6, few_bits.CONV_ONLY: 1.5}

        def figures(gaps):
            def of(row, seed):
                gap = gaps.get(row.name, 2 if row.fault_in else 0.02) + seed / 1000 * (row.name != few_bits.BASE)
                return {"train_loss": 0.2 + gap / 100, "test_loss": 0.3, "accuracy": 0.9 - gap / 100}
            return of
        text, runs = self.judge(few_bits.CLAIM, figures(gap_of))
        self.assertEqual(runs, 51)
        self.assertRegex(text, "^# .*: the paper holds\n")
        text, _ = self.judge(few_bits.CLAIM, figures(gap_of | {"qsgd, 8 bits, 512": 0.7}))
        self.assertRegex(text, "^# .*: the paper is contradicted\n")
        self.assertRegex(text, r"qsgd, 8 bits, 512 is at most 0.5 points below fp32 +\| 3 +\| \+0.70 .*\| contradicted")
        self.assertRegex(text, r"2 bits are at least 1.0 points below fp32 .*\| holds")

    def test_pipelining_asks_for_all_that_the_paper_says(self):
        def figures(gaps):
            def of(row, seed):
                gap = gaps.get(row.name, 2 if row.fault_in else 0) + seed / 1000 * (1 + len(row.name) % 3)
                return {"train_loss": 0.2 + gap / 100, "test_loss": 0.3, "accuracy": 0.9 - gap / 100}
            return of
        paper = {pipelining.name_of(0, updater): 0.4 for updater in pipelining.UPDATERS}
        paper |= {pipelining.name_of(5, updater): 0.2 * (updater not in pipelining.COMPENSATED) for updater in pipelining.UPDATERS}
        self.assertRegex(self.judge(pipelining.CLAIM, figures(paper))[0], "^# .*: the paper holds\n")
        text, runs = self.judge(pipelining.CLAIM, figures(paper | {pipelining.name_of(0, "dcasgd_c"): 0.05}))
        self.assertEqual(runs, 36)
        self.assertRegex(text, "^# .*: the paper is contradicted\n")

    def test_steps_to_a_loss_lie_between_evaluations(self):
        steps = linear_speedup.steps_to_loss({"curve": [[100, 2 * linear_speedup.LOSS], [200, linear_speedup.LOSS / 2]]})
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
