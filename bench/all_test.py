#!/usr/bin/env python3
"""Tests how all.py ends: with 1 if a benchmark has failed, whatever else it has done, and after the others.

  all_test.py SOURCE_DIR
"""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)).resolve() / "bench"))
import all as collector  # noqa: E402: found by the line above
import targets  # noqa: E402

# Writes its figures, if it has any, and ends with the code.
BENCHMARK = """import pathlib, sys
code, text = sys.argv[1:3]
if text:
    pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(text)
sys.exit(int(code))
"""


def figures(key, value):
    measured = targets.Figures()
    measured.add(key, value)
    return json.dumps(measured.rows)


def benchmark(code, text=""):
    return [sys.executable, "-c", BENCHMARK, str(code), text]


class All(unittest.TestCase):
    def run_all(self, *parts):
        """Returns the exit code and the output of all.py with these benchmarks."""
        with tempfile.TemporaryDirectory(prefix="tern_bench_all.") as out:
            words = ["all.py", "build", "--only", ",".join(name for name, _ in parts), "--out", out]
            with unittest.mock.patch.object(collector, "parts", return_value=list(parts)), \
                 unittest.mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(io.StringIO()) as said:
                return collector.main(), said.getvalue()

    def test_ends_well_if_all_do(self):
        code, said = self.run_all(("bytes", benchmark(0, figures("up_ternary", 25))), ("networks", benchmark(0)))
        self.assertEqual(code, 0, said)
        self.assertNotIn("failed", said)

    def test_names_one_that_failed_without_figures(self):
        code, said = self.run_all(("link", benchmark(3)), ("bytes", benchmark(0, figures("up_ternary", 25))))
        self.assertEqual(code, 1)
        self.assertIn("benchmarks that failed or missed a target: link (exit code 3);", said)
        self.assertIn(targets.TARGETS["up_ternary"].what, said)  # the one after it has run

    def test_names_one_that_failed_with_figures(self):
        code, said = self.run_all(("simulator", benchmark(1, figures("simulator", 30))), ("bytes", benchmark(0)))
        self.assertEqual(code, 1)
        self.assertIn("simulator (exit code 1)", said)


if __name__ == "__main__":
    unittest.main()
