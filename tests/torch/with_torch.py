#!/usr/bin/env python3
"""Runs a script of this folder with a Python that has PyTorch. Exits with 77 and a message if there is none.

    with_torch.py SCRIPT ARGUMENTS...
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from processes import python_with_torch  # noqa: E402

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt


def main():
    python = python_with_torch()
    if python is None:
        print("skipped: no Python with PyTorch found (Debian: python3-torch)")
        return SKIPPED
    return subprocess.run([python, "-B", HERE / sys.argv[1], *sys.argv[2:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
