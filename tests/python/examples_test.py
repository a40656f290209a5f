"""Each of python/examples trains for a few steps with two workers, which end with the same weights.

  examples_test.py [-v] [TEST...]     with TERN_SERVER and TERN_LIBRARY (job.py)

Exits with 77 if this Python has no PyTorch or no NumPy.
"""
import importlib
import importlib.util
import os
import pathlib
import random
import re
import shutil
import site
import subprocess
import sys
import tempfile
import unittest

from job import PATIENCE_S, PYTHON_FOLDER, Job, Process, environment_of_workers

EXAMPLES = PYTHON_FOLDER / "examples"
ALL = {"resnet18_cifar10.py", "small_gpt.py", "lstm_ctc.py", "fine_tuning.py", "diloco.py", "od_sgd.py", "lightning_ddp.py",
       "ray_train.py"}
WITHOUT_TERN = {"make_speech.py"}
STEPS = ("--steps", 4, "--batch", 4, "--print_hash_every", 2)
SMALL_GPT = ("--width", 8, "--layers", 1, "--heads", 2, "--context", 8, "--write", 20)
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
# Starts a script in a cluster of this machine alone. Ray puts another address of the machine in place of 127.0.0.1, not of 127.0.0.2.
RAY = """
import ray, runpy, sys
ray.init(_node_ip_address="127.0.0.2", include_dashboard=False, num_cpus=4)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
RAY_PATIENCE_S = 400  # It starts about ten processes; 30 s on two cores that have nothing else to do.
GPL = "/usr/share/common-licenses/GPL-3"  # of Debian's package base-files, which is always there
START = "faults: {start_timeout_s: 300}\n"  # PyTorch starts slowly on a busy machine.


class ExampleJob(Job):
    """A job of the examples' own file, with free ports and a temporary folder."""

    def __init__(self, script, file="job.yaml", changes=(), more=START, **options):
        self.file = file
        self.changes = dict(changes)
        super().__init__(EXAMPLES / script, more=more, **options)

    def text(self, servers, **unused):
        text = (EXAMPLES / self.file).read_text()
        for old, new in (('{address: "127.0.0.1:7500"}', servers), ("out/", f"{self.folder}/out/"), *self.changes.items()):
            assert text.count(old) == 1, f"{self.file} has not one {old}"
            text = text.replace(old, new)
        return text

    def train(self, *words):
        """Runs two workers to the end. Returns what each printed."""
        return self.run(*words, "--job", self.path)


def has(module):
    """Whether this Python has a module, with all that it needs."""
    try:
        importlib.import_module(module)
        return True
    except ImportError:
        return False


def weights_in(output):
    """(step, digest of the weights) as the example printed them. Lines of two workers that write to one pipe may run together."""
    return re.findall(r"step (\d+)  loss \S+  weights ([0-9a-f]{64})", output)


def write_images(folder):
    """Files as CIFAR-10's, with images of noise."""
    generator = random.Random(1)
    for name, count in (("data_batch_1.bin", 40), ("test_batch.bin", 10)):
        records = (bytes([generator.randrange(10)]) + generator.randbytes(3072) for _ in range(count))
        (folder / name).write_bytes(b"".join(records))


def content_of_speech(file):
    """The texts of a file of make_speech.py, and its spectrograms as bytes."""
    import torch
    content = torch.load(file)
    return content["texts"], [spectrum.numpy().tobytes() for spectrum in content["spectra"]]


class Examples(unittest.TestCase):
    def equal_weights(self, outputs, steps=(2, 4)):
        """Both workers have printed the same weights after these steps, and other ones after each."""
        first, second = (weights_in(output) for output in outputs)
        self.assertEqual(first, second)
        self.assertEqual([int(step) for step, _ in first], list(steps), outputs[0])
        self.assertEqual(len({digest for _, digest in first}), len(steps))

    def test_resnet18_then_fine_tuning(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_images(folder)
            words = ("--data", folder, "--width", 4, *STEPS)
            with ExampleJob("resnet18_cifar10.py") as job:
                outputs = job.train(*words, "--save", folder / "weights.pt")
                self.equal_weights(outputs)
                self.assertIn("accuracy 0.", outputs[0])
            with ExampleJob("fine_tuning.py") as job:
                outputs = job.train(*words, "--weights", folder / "weights.pt")
                self.equal_weights(outputs)
                self.assertIn("accuracy ", outputs[0])

    def test_small_gpt_over_two_servers(self):
        with ExampleJob("small_gpt.py", servers=2) as job:
            outputs = job.train(*STEPS, *SMALL_GPT, "--text", GPL)
            self.equal_weights(outputs)
            self.assertRegex(outputs[0], r"loss of the held-out text \d\.\d{4}\n")

    def test_lstm_ctc(self):
        with ExampleJob("lstm_ctc.py") as job:
            outputs = job.train(*STEPS, "--width", 8)
            self.equal_weights(outputs)
            self.assertRegex(outputs[0], r"heard wrong [01]\.\d{4} of the symbols in 200 other utterances")

    @unittest.skipUnless(shutil.which("espeak-ng"), "this machine has no espeak-ng: apt-get install espeak-ng")
    def test_speech_then_lstm_ctc(self):
        with tempfile.TemporaryDirectory() as name:
            files = [pathlib.Path(name) / file for file in ("speech.pt", "again.pt", "other.pt")]
            for file, seed in zip(files, (1, 1, 2)):
                subprocess.run([sys.executable, EXAMPLES / "make_speech.py", "--count", "30", "--seed", str(seed), "--out", file],
                               env=environment_of_workers(), check=True, timeout=PATIENCE_S)
            first, again, other = (content_of_speech(file) for file in files)
            self.assertEqual(first, again)
            self.assertNotEqual(first, other)
            with ExampleJob("lstm_ctc.py") as job:
                outputs = job.train(*STEPS, "--width", 8, "--speech", files[0])
                self.equal_weights(outputs)
                self.assertRegex(outputs[0], r"heard wrong [01]\.\d{4} of the symbols in [1-3] other utterances")

    def test_diloco(self):
        with ExampleJob("diloco.py", "local_job.yaml") as job:
            self.equal_weights(job.train("--steps", 9, "--every", 3, "--batch", 4, "--width", 8), steps=(3, 6, 9))

    def test_od_sgd(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_images(folder)
            changes = {"steps: 2000": "steps: 12", "warmup_steps: 200": "warmup_steps: 4", "batch_total: 128": "batch_total: 8",
                       "{every_steps: 500}\nche": "{every_steps: 6}\nche", "on_worker_loss: wait": "on_worker_loss: wait, start_timeout_s: 300"}
            with ExampleJob("od_sgd.py", "module_job.yaml", changes, more="") as job:
                job.train("--data", folder, "--width", 4, "--batch", 4)
                self.assertIn("of 10 images", job.servers[0].output)
                self.assertIn("replicas              agree", job.servers[0].output)

    def started_together(self, script, *before, **environment):
        """Starts Python with these words, the script and its options; it starts both workers. Returns the weights by step."""
        with ExampleJob(script) as job:
            run = job.start(script, *before, job.script, *STEPS, "--width", 8, "--job", job.path, **environment)
            job.finish(max(PATIENCE_S, RAY_PATIENCE_S))
            # Ray shows each line in both streams.
            seen = weights_in("\n".join(dict.fromkeys(run.output.splitlines())))
            self.assertEqual(sorted(int(step) for step, _ in seen), [2, 2, 4, 4], run.output)
            self.assertEqual(len(set(seen)), 2, seen)
            return set(seen)

    def test_torchrun(self):
        self.started_together("lstm_ctc.py", *TORCHRUN)

    @unittest.skipUnless(has("lightning"), "this Python has no Lightning: pip install lightning")
    def test_lightning_starts_the_workers_and_so_does_torchrun(self):
        self.assertEqual(self.started_together("lightning_ddp.py"), self.started_together("lightning_ddp.py", *TORCHRUN))

    def test_torchrun_starts_the_function_of_ray(self):
        self.started_together("ray_train.py", *TORCHRUN)

    @unittest.skipUnless(has("ray.train"), "this Python has no Ray Train: pip install 'ray[train]'")
    def test_ray_starts_the_workers_and_so_does_torchrun(self):
        with tempfile.TemporaryDirectory() as home:  # where Ray puts its results and the cluster's token
            weights = self.started_together("ray_train.py", "-c", RAY, HOME=home, PYTHONUSERBASE=site.getuserbase(),
                                            RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0")
        self.assertEqual(weights, self.started_together("ray_train.py", *TORCHRUN))

    def test_tern_launch(self):
        with tempfile.TemporaryDirectory() as folder:
            tern = pathlib.Path(os.environ["TERN_SERVER"]).with_name("tern")
            run = Process("tern launch", [
                tern, "launch", "-n", 2, "--set", f"output_dir={folder}/out", "--set", "faults.start_timeout_s=300", "--",
                sys.executable, EXAMPLES / "lstm_ctc.py", *STEPS, "--width", 8,
            ], environment_of_workers())
            try:
                self.assertEqual(run.wait(), 0, run.output)
            finally:
                run.end()
            # Each worker's lines have its rank in front.
            self.equal_weights([
                "".join(line.removeprefix(prefix) for line in run.output.splitlines(True) if line.startswith(prefix))
                for prefix in ("[0] ", "[1] ")])
            self.assertIn("[0] heard wrong ", run.output)
            self.assertIn("servers, workers      1, 2\n", run.output)


class Files(unittest.TestCase):
    def test_each_has_three_lines_of_tern(self):
        self.assertEqual({path.name for path in EXAMPLES.glob("*.py")}, ALL | WITHOUT_TERN)
        for name in ALL:
            lines = re.findall(r"^.*(?:\btern(?:\.torch\.|_train\b)|\.tern\.).*$", (EXAMPLES / name).read_text(), re.MULTILINE)
            self.assertEqual(len(lines), 3, lines)

    def test_the_manual_names_each(self):
        text = (EXAMPLES / "README.md").read_text()
        for name in ALL | WITHOUT_TERN | {"job.yaml", "local_job.yaml", "module_job.yaml"}:
            self.assertIn(f"]({name})", text)


if __name__ == "__main__":
    if missing := [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]:
        print(f"skipped: this Python has no {' and no '.join(missing)}")
        sys.exit(77)
    for variable in ("TERN_RANK", "TERN_JOB", "RANK"):
        os.environ.pop(variable, None)
    unittest.main()
