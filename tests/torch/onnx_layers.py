#!/usr/bin/env python3
"""Tests every layer in ONNX: compares the nets of golden_cases.py, run by ONNX Runtime after `tern convert onnx`, with
PyTorch in double precision.

    onnx_layers.py BUILD_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

import golden_cases
import make_golden
import torch_to_safetensors
from exported import BOUND, SKIPPED, python_with_onnx_runtime, worst

HERE = pathlib.Path(__file__).resolve().parent


def prepare(tern, folder, name, net):
    """Writes the net as ONNX, and its images. Returns PyTorch's scores."""
    case = make_golden.Case(net, 1)
    case.fill()
    (folder / f"{name}.json").write_text(json.dumps(net))
    torch_to_safetensors.save(folder / name, case.named)
    subprocess.run([tern, "convert", "onnx", folder / f"{name}.json", folder / name, folder / f"{name}.onnx"], check=True,
                   stdout=subprocess.DEVNULL)
    numpy.save(folder / f"{name}.images.npy", case.images.float().numpy())
    with torch.no_grad():
        return case.torch_net.eval()(case.images)


def main():
    python = python_with_onnx_runtime()
    if python is None:
        print("skipped: no ONNX Runtime; `pip install onnxruntime` into a virtual environment, its Python in TERN_ONNX_PYTHON")
        return SKIPPED
    tern = pathlib.Path(sys.argv[1]).resolve() / "bin/tern"
    with tempfile.TemporaryDirectory(prefix="tern_onnx.") as folder:
        folder = pathlib.Path(folder)
        theirs = {name: prepare(tern, folder, name, net) for name, net in golden_cases.all_cases().items()}
        files = [str(folder / (name + end)) for name in theirs for end in (".onnx", ".images.npy", ".scores.npy")]
        subprocess.run([python, HERE / "run_onnx.py", *files], check=True)
        errors = {name: worst(torch.from_numpy(numpy.load(folder / f"{name}.scores.npy")), scores)
                  for name, scores in theirs.items()}
    name = max(errors, key=errors.get)
    print(f"{len(errors)} nets: largest relative difference {errors[name]:.2g} ({name})")
    failed = [name for name, error in errors.items() if not error <= BOUND]
    if failed:
        print(f"onnx_layers: over {BOUND}: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
