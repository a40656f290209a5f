"""libtern.so in one process with PyTorch and with other copies of protobuf, whichever comes first.

  load_test.py [-v] [TEST...]    with TERN_SERVER and TERN_LIBRARY (job.py)

Each test starts a fresh interpreter, which loads libraries in an order, and takes part in a job of one worker to its end.
"""
import ctypes
import importlib.util
import os
import subprocess
import sys
import unittest

from job import HERE, Job, Process, environment_of_workers

SCRIPT = HERE / "load_worker.py"
DEBIANS_PYTHON = "/usr/bin/python3"  # which has python3-protobuf, if another Python is the first on the path


def has_libprotobuf():
    try:
        ctypes.CDLL("libprotobuf.so.32")
        return True
    except OSError:
        return False


def pythons_with_protobuf():
    """This Python and Debian's, as far as they have the package google.protobuf. An installed tern_train has only this one."""
    command = "import google.protobuf.struct_pb2"
    pythons = (sys.executable, DEBIANS_PYTHON) if "TERN_LIBRARY" in os.environ else (sys.executable,)
    return [python for python in dict.fromkeys(pythons)
            if subprocess.run([python, "-c", command], capture_output=True, check=False).returncode == 0]


class Order(unittest.TestCase):
    def load(self, *names, python=sys.executable):
        """Runs a job whose worker loads these. Returns what it printed."""
        with Job(SCRIPT, workers=1) as one:
            one.workers = [Process("worker 0", [python, SCRIPT, *names],
                                   {**environment_of_workers(), "TERN_JOB": str(one.path), "TERN_RANK": "0"})]
            one.finish()
            self.assertIn("done\n", one.workers[0].output)
            return one.workers[0].output

    def test_alone_it_brings_no_onednn_no_cuda_and_no_openmp(self):
        self.load("tern")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no PyTorch")
    def test_before_and_after_pytorch(self):
        self.load("tern", "torch")
        self.load("torch", "tern")

    @unittest.skipUnless(has_libprotobuf(), "this machine has no libprotobuf.so.32")
    def test_before_and_after_another_libprotobuf(self):
        self.load("tern", "libprotobuf")
        self.load("libprotobuf", "tern")

    def test_before_and_after_pythons_protobuf(self):
        pythons = pythons_with_protobuf()
        if not pythons:
            self.skipTest("no Python here has google.protobuf: apt-get install python3-protobuf")
        for python in pythons:
            with self.subTest(python=python):
                self.load("tern", "google", python=python)
                print(self.load("google", "tern", python=python).splitlines()[0])

    @unittest.skipUnless(importlib.util.find_spec("torch") and has_libprotobuf(), "this machine has no PyTorch or no libprotobuf.so.32")
    def test_among_all(self):
        more = ["google"] if sys.executable in pythons_with_protobuf() else []
        self.load("libprotobuf", "torch", *more, "tern")
        self.load("tern", *more, "libprotobuf", "torch")


if __name__ == "__main__":
    unittest.main()
