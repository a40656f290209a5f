#!/usr/bin/env python3
"""Times the simulator of the protocol (tests/sim): 100,000 schedules on two threads, every machine checked after every
event.

  simulator.py FOLDER_OF_SIMULATOR [--json FILE]
"""
import argparse
import pathlib
import re
import subprocess
import sys

import targets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    ran = subprocess.run([str(options.folder / "simulator")], stdout=subprocess.PIPE, text=True)
    print(ran.stdout)
    figures = targets.Figures()
    took = re.search(r"^all: 100000 schedules in ([0-9.]+) s$", ran.stdout, re.MULTILINE)
    if ran.returncode == 0 and took:
        figures.add("simulator", float(took[1]))
    else:
        figures.add_missing("simulator", "a schedule did not end well")
    figures.write(options.json)
    print(figures.table())
    return 1 if ran.returncode != 0 or figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
