#!/usr/bin/env python3
"""Compares kernels on one core with the lower bounds that speed_targets measures, and with the same steps as PyTorch
operations (torch_ternarize.py).

  kernels.py FOLDER_OF_SPEED_TARGETS [--elements 134217728] [--json FILE]
"""
import argparse
import json
import pathlib
import subprocess
import sys

import processes
import targets

HERE = pathlib.Path(__file__).resolve().parent
KEYS = {  # keys of targets.TARGETS, by the names that speed_targets prints
    "ternarize_vs_floor": "ternarize_vs_floor",
    "sum_ternary_2bit_vs_fp32": "sum_2bit_vs_fp32",
    "sum_ternary_2bit_vs_decode_add_encode": "sum_2bit_vs_recode",
    "sum_ternary_vs_fp32": "sum_ternary_vs_fp32",
    "sum_ternary_vs_decode_add_encode": "sum_ternary_vs_recode",
    "decode_momentum_vs_floor": "decode_vs_floor",
}


def run(*words):
    return {row["target"]: row for row in json.loads(subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, text=True).stdout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--elements", type=int, default=134217728)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    figures = targets.Figures()
    ours = run(options.folder / "speed_targets", "--elements", options.elements)
    for name, key in KEYS.items():
        note = ours[name]["note"]
        if name.endswith("_vs_decode_add_encode"):
            in_cache = ours[name.replace("decode_add_encode", "recode_in_cache")]
            note += f"; {in_cache['value']:.3g} times the peer that goes chunk by chunk, its floats in a cache"
        figures.add(key, ours[name]["value"], ours[name]["samples"], note)
    python = processes.python_with_torch()
    if python is None:
        for key in ("ternarize_vs_torch", "decode_vs_torch"):
            figures.add_missing(key, "PyTorch is not installed (Debian: python3-torch)")
    else:
        torch = run(python, "-B", HERE / "torch_ternarize.py", "--elements", options.elements)
        figures.add("ternarize_vs_torch", torch["torch_ternarize_seconds"]["value"] / ours["ternarize_seconds"]["value"],
                    note=torch["torch_ternarize_seconds"]["note"])
        apart = ours["decode_seconds"]["value"] + torch["torch_momentum_seconds"]["value"]
        figures.add("decode_vs_torch", apart / ours["decode_momentum_seconds"]["value"])
    figures.write(options.json)
    print(figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
