"""Tern's programs in the wheel. A console script of the same name starts each."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def _become(name: str) -> NoReturn:
    """Replaces this process, so that signals and the exit code are the program's own."""
    path = pathlib.Path(__file__).parent / "bin" / name
    if not path.exists():
        sys.exit(f"{name}: {path} is missing; install the wheel, or start the program of your build")
    os.execv(path, [str(path), *sys.argv[1:]])


def tern() -> NoReturn:
    _become("tern")


def tern_server() -> NoReturn:
    _become("tern_server")


def tern_worker() -> NoReturn:
    _become("tern_worker")
