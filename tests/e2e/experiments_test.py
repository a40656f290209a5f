"""Runs the scripts of scripts/experiments with a program instead of `tern` that answers at once.

  experiments_test.py SOURCE_DIR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(SOURCE / "scripts/experiments"))
import student  # noqa: E402: found by the line above

# Writes the figures that a server would write, and weights that depend on the settings. With FAIL=SEED it fails with CODE; with HANG=SEED it waits for a signal.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, signal, sys
words = sys.argv[1:]
settings = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--set")
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(words + [name for name in os.environ if name in ("TERN_SERVERS", "TERN_WORKERS", "TERN_OUTPUT_DIR")]) + "\\n")
if os.environ.get("HANG") == settings["seed"]:
    print("hangs", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.pause()
if os.environ.get("FAIL") == settings["seed"]:
    print("tern: worker 1 is lost")
    sys.exit(int(os.environ["CODE"]))
codec = settings.get("exchange.codec", "ternary")
ternary = codec == "ternary"
seed = int(settings["seed"])
figures = {"samples": 1000, "samples_per_s": 5000.0, "down_bytes": 4000, "wall_s": 1.0,
           "up_bytes": {"fp32": 4000, "qsgd": 500}.get(codec, 100),
           "code": 0, "accuracy": 0.9 - (0.001 * seed if ternary else 0), "train_loss": 0.2, "train_s": 30.0,
           "up_ratio": 24.0 if ternary else 1.0, "down_ratio": 10.5, "parameters_hash": "0", "replicas_agree": True}
pathlib.Path(settings["output_dir"], "server.0.json").write_text(json.dumps(figures))
pathlib.Path(settings["output_dir"], "weights.safetensors").write_text(" ".join(words))
logs = pathlib.Path(settings["output_dir"], "logs")
logs.mkdir()
(logs / "tern_worker.worker.0.here.log").write_text(
    "I after step 391: test accuracy 0.5 of 10 (0.9 top-5), test loss 1.5, training loss 1.6 of 9 since\\n"
    "I after step 3906: test accuracy 0.9 of 10 (0.9 top-5), test loss 0.5, training loss 0.25 of 9 since\\n")
"""


class Experiments(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory(prefix="tern_experiments.")
        self.addCleanup(self.kept.cleanup)
        self.folder = pathlib.Path(self.kept.name)
        (self.folder / "bin").mkdir()
        for name in ("tern", "tern_server", "tern_worker"):
            (self.folder / "bin" / name).write_text(PROGRAM)
            (self.folder / "bin" / name).chmod(0o755)
        self.out = self.folder / "out"

    def start(self, *options, script="lenet_fashion.sh", **environment):
        return subprocess.Popen(
            [SOURCE / "scripts/experiments" / script, *options, "--out", self.out], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, TERN_BUILD_DIR=str(self.folder), CALLS=str(self.folder / "calls"), **environment))

    def run_script(self, *options, code=0, **more):
        process = self.start(*options, **more)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, out)
        return out

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def test_runs_each_pair_once_and_judges(self):
        out = self.run_script()
        self.assertEqual(len(self.calls()), 10)
        self.assertIn("mean gap at most 0.50 points", out)
        self.assertIn("met, by 0.2 ", out)  # a mean gap of 0.3 points
        case = json.loads((self.out / "results.json").read_text())["cases"][0]
        self.assertAlmostEqual(case["mean_gap_points"], 0.3)
        # 0.3 and a deviation of 0.158 over five seeds: 0.3 +- 2.776 * 0.158 / sqrt(5)
        self.assertAlmostEqual(case["gap_interval_95_two_sided"][0], 0.3 - 0.19633, places=4)
        self.run_script()
        self.assertEqual(len(self.calls()), 10)

    def test_says_which_bar_is_missed(self):
        out = self.run_script(str(self.folder), "--jobs", "4", code=1, script="lenet_mnist.sh")
        self.assertEqual(len(self.calls()), 42)
        self.assertEqual(out.count("NOT met, by 0.2307"), 3)  # 0.3 + 2.132 * 0.158 / sqrt(5) of five seeds
        self.assertEqual(out.count("NOT met, by 0.1486"), 2)  # 0.2 + 2.920 * 0.1 / sqrt(3) of three

    def test_goes_on_after_a_failure_and_runs_it_again(self):
        out = self.run_script(code=1, FAIL="4", CODE="75")
        self.assertIn("worker 1 is lost", out)
        self.assertIn("not yet: 4 of 5 seeds", out)
        self.assertEqual(len(self.calls()), 8 + 2 * 2)  # a run with a lost peer is repeated once
        self.run_script()
        self.assertEqual(len(self.calls()), 12 + 2)

    def test_stops_at_what_every_run_would_meet(self):
        out = self.run_script(code=1, FAIL="1", CODE="65")
        self.assertIn("exit code 65", out)
        self.assertEqual(len(self.calls()), 1)

    def test_stops_in_order_and_goes_on(self):
        process = self.start(HANG="2")
        deadline = time.monotonic() + 60
        while not any("seed=2" in call for call in self.calls()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out)
        self.assertEqual(len(self.calls()), 3)
        self.assertIn("1 of 5", self.run_script("--table_only"))
        self.run_script()
        self.assertEqual(len(self.calls()), 3 + 8)

    def test_keeps_a_short_form_apart(self):
        self.run_script("--steps", "50", "--seeds_to", "1")
        self.run_script("--seeds_to", "1")
        self.assertEqual(len(self.calls()), 4)

    def test_lists_figure_3_the_first_seeds_first(self):
        lines = self.run_script(str(self.folder), "--dry-run", script="lenet_mnist.sh").splitlines()
        self.assertEqual(len(lines), 2 * (3 * 5 + 2 * 3))
        self.assertTrue(all("seed 1 " in line for line in lines[:10]))
        more = self.run_script(str(self.folder), "--dry-run", "--with_64", script="lenet_mnist.sh").splitlines()
        self.assertEqual(len(more), len(lines) + 6)

    def test_refuses_what_it_does_not_know(self):
        for options in (["--sedes_to", "1"], ["--only", "adam/*"], ["--jobs", "0"], ["--seeds_to", "x"]):
            self.run_script(*options, code=64)
        self.run_script("/does/not/exist", code=65, script="lenet_mnist.sh")
        self.assertEqual(self.calls(), [])

    def test_knows_students_t(self):
        for freedom, two_sided, one_sided in ((1, 12.7062, 6.3138), (2, 4.3027, 2.9200), (4, 2.7764, 2.1318),
                                              (9, 2.2622, 1.8331)):
            self.assertAlmostEqual(student.quantile(0.975, freedom), two_sided, places=4)
            self.assertAlmostEqual(student.quantile(0.95, freedom), one_sided, places=4)

    def test_tables_compare_every_row_with_the_base(self):
        # If the bytes miss a requirement of the first table, the script exits with 1.
        for script, rows, code in (("algorithms_mnist.sh", 30, 1), ("codecs_mnist.sh", 27, 0)):
            with self.subTest(script):
                (self.folder / "calls").unlink(missing_ok=True)
                self.out = self.folder / script
                out = self.run_script(self.mnist(), "--seeds", "2", script=script, code=code)
                self.assertEqual(len(self.calls()), 2 * rows)
                self.assertIn("| met", out)
                self.assertEqual("NOT met" in out, code == 1)
                self.run_script(self.mnist(), "--seeds", "2", script=script, code=code)
                self.assertEqual(len(self.calls()), 2 * rows)

    def test_a_table_judges_what_is_asked_of_a_row(self):
        out = self.run_script(self.mnist(), "--seeds", "2", "--only", "odsgd:ternary", script="algorithms_mnist.sh")
        self.assertEqual(len(self.calls()), 4)
        # Gaps of 0.1 and 0.2 points.
        self.assertRegex(out, r"odsgd:ternary +\| mean gap to ssgd fp32 at most 0.25 points +\| 0.150 +\| met")
        self.assertRegex(out, r"odsgd:ternary +\| 2 .* 51.25")  # (100 + 4000) / 8000 bytes

    def test_cifar10_judges_both_nets_and_keeps_curves(self):
        arms = ("--only", "*:fp32", "--only", "*:ternary")
        out = self.run_script(str(self.folder), *arms, script="cifar10.sh")
        self.assertEqual(len(self.calls()), 2 * (2 + 3))
        self.assertRegex(out, r"cifarnet \| ternary at most 2.0 points below fp32, mean +\| \+0.20 +\| met, by 1.80")
        self.assertRegex(out, r"resnet20 \| fp32 at most 1.5 points below pytorch, mean +\| - +\| not yet: 0 of 2")
        curves = json.loads((self.out / "curves.json").read_text())["nets"]
        self.assertEqual([len(curves[net]["ternary"]) for net in ("resnet20", "cifarnet")], [2, 3])
        self.assertEqual(curves["cifarnet"]["fp32"][0][1],
                         {"step": 3906, "accuracy": 0.9, "test_loss": 0.5, "train_loss": 0.25})
        self.assertEqual(self.run_script(str(self.folder), "--dry-run", *arms, script="cifar10.sh").count("finished"), 10)
        self.run_script("/does/not/exist", code=65, script="cifar10.sh")
        self.run_script(str(self.folder), "--only", "lenet:*", code=64, script="cifar10.sh")

    def test_fine_tunes_again_from_another_base(self):
        data = self.folder / "cifar10"
        data.mkdir()
        for name in [f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]:
            (data / name).write_bytes(b"".join(bytes([label]) + bytes(3072) for label in range(10)))
        words = (str(data), "--seeds", "2")
        # Exit code 1, because the two arms have the same accuracy here.
        self.run_script(*words, script="fine_tuning.sh", code=1)
        self.assertEqual(len(self.calls()), 1 + 2 * 2)
        self.run_script(*words, script="fine_tuning.sh", code=1)
        self.assertEqual(len(self.calls()), 1 + 2 * 2)
        self.run_script(*words, "--base_epochs", "5", script="fine_tuning.sh", code=1)
        again = self.calls()[1 + 2 * 2:]
        self.assertEqual([call.split("output_dir=")[1].split("/")[-2] for call in again], ["base", "fine_tuned", "fine_tuned"])

    def test_a_users_own_place_changes_no_run(self):
        self.run_script("--seeds_to", "1", TERN_WORKERS="7", TERN_SERVERS="far:7500", TERN_OUTPUT_DIR="elsewhere")
        self.assertEqual([call for call in self.calls() if "TERN_" in call], [])

    def mnist(self):
        """Makes a folder with files that have the names that the scripts expect."""
        folder = self.folder / "mnist"
        folder.mkdir(exist_ok=True)
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                     "t10k-labels-idx1-ubyte"):
            (folder / name).touch()
        return str(folder)


if __name__ == "__main__":
    unittest.main()
