#!/usr/bin/env python3
"""Tests the conversion of weights: scripts/torch_to_safetensors.py brings weights from PyTorch to Tern, which trains
two steps; scripts/safetensors_to_torch.py brings them back, and `tern convert onnx` to ONNX Runtime. The scores must
agree.

    exported.py BUILD_FOLDER [--onnx_runtime] [MODEL...]

--onnx_runtime needs ONNX Runtime in this Python or in $TERN_ONNX_PYTHON; exits with 77 if there is none.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import torch_to_safetensors  # noqa: E402
import safetensors_to_torch  # noqa: E402
from nets import NetFile  # noqa: E402

BOUND = 1e-4  # relative to the largest score
IMAGES, BATCH, STEPS = 3, 8, 2
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
TEN = ["--classes", "10"]
# Arguments of `tern model`: small images if the network supports them.
MODELS = {
    "lenet": [], "cifarnet": [], "resnet20": [], "mobilenet": ["--height", "64", "--width", "64", *TEN],
    "googlenet": ["--height", "64", "--width", "64", *TEN],
    "inception_bn": ["--height", "64", "--width", "64", *TEN], "resnet18_v2": [], "resnet32": [], "resnet110": [],
    "resnet50": ["--height", "96", "--width", "96", *TEN], "resnet152": ["--height", "96", "--width", "96", *TEN],
    "alexnet": TEN, "vgg_a": ["--height", "32", "--width", "32", *TEN],
    "vgg16": ["--height", "32", "--width", "32", "--batch_norm", *TEN], "vgg19": TEN,
}
QUICK = ["lenet", "cifarnet", "resnet20", "mobilenet", "googlenet"]


def python_with_onnx_runtime():
    for python in filter(None, (os.environ.get("TERN_ONNX_PYTHON"), sys.executable)):
        if subprocess.run([python, "-c", "import onnxruntime"], capture_output=True).returncode == 0:
            return python
    return None


def worst(ours, theirs):
    """Returns the largest difference, relative to the largest value of `theirs`."""
    return float((ours - theirs).abs().max() / theirs.abs().max())


class Export:
    def __init__(self, build, folder, model):
        self.build, self.folder, self.model = build, folder, model
        self.file = NetFile(build, folder, model, MODELS[model])
        torch.manual_seed(5)
        self.images = torch.randn(IMAGES, *self.file.shape)
        torch_to_safetensors.save(folder / "images", {"images": self.images})

    def run(self, *words):
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)

    def import_and_train(self):
        """Trains in Tern, and sets `exported` to the weights that it writes."""
        net = self.file.torch_net().train()
        with torch.no_grad():
            net(torch.randn(BATCH, *self.file.shape))  # gives batch norms statistics
        torch.save({name: tensor for name, tensor in net.named_by_layer()}, self.folder / "start.pt")
        self.run(sys.executable, SCRIPTS / "torch_to_safetensors.py", self.folder / "start.pt", self.folder / "start")
        torch_to_safetensors.save(self.folder / "batches", {
            "images": torch.randn(STEPS, BATCH, *self.file.shape), "labels": torch.randint(self.file.classes, (STEPS, BATCH))})
        self.run(self.build / "tests/torch/torch_probe", "follow", self.file.path, self.folder / "start",
                 self.folder / "batches", self.folder / "exported", 1e-4, 0.9)

    def torch_scores(self):
        self.run(sys.executable, SCRIPTS / "safetensors_to_torch.py", self.folder / "exported", self.folder / "exported.pt")
        state = torch.load(self.folder / "exported.pt")
        assert len(state.pop("losses")) == STEPS
        net = self.file.torch_net().eval()
        self.file.load(net, state)
        with torch.no_grad():
            return net(self.images)

    def tern_scores(self):
        self.run(self.build / "tests/torch/torch_probe", "scores", self.file.path, self.folder / "exported",
                 self.folder / "images", self.folder / "scores")
        return safetensors_to_torch.load(self.folder / "scores")[0]["scores"]

    def write_onnx(self):
        path = self.folder / "net.onnx"
        self.run(self.build / "bin/tern", "convert", "onnx", self.file.path, self.folder / "exported", path)
        try:
            import onnx
        except ImportError:
            return "not checked by onnx.checker (Debian: python3-onnx)"
        onnx.checker.check_model(str(path), full_check=True)
        return "onnx.checker is content"

    def onnx_scores(self, python):
        numpy.save(self.folder / "images.npy", self.images.numpy())
        self.run(python, HERE / "run_onnx.py", self.folder / "net.onnx", self.folder / "images.npy", self.folder / "scores.npy")
        return torch.from_numpy(numpy.load(self.folder / "scores.npy"))


def export(build, folder, model, onnx_python):
    one = Export(build, folder, model)
    one.import_and_train()
    theirs = one.torch_scores()
    errors = {"Tern": worst(one.tern_scores(), theirs)}
    checked = one.write_onnx()
    if onnx_python:
        errors["ONNX Runtime"] = worst(one.onnx_scores(onnx_python), theirs)
    text = ", ".join(f"{name} {error:.2g}" for name, error in errors.items())
    print(f"{model}: largest relative difference to PyTorch's scores: {text}; {checked}", flush=True)
    return all(error <= BOUND for error in errors.values())


class Harm:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def refuses_code(folder):
    """Whether the script refuses a .pt file with code, and does not run it."""
    torch.save({"w": torch.zeros(1), "harm": Harm(folder / "harmed")}, folder / "harm.pt")
    as_before_2_6 = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    done = subprocess.run([sys.executable, SCRIPTS / "torch_to_safetensors.py", folder / "harm.pt", folder / "out"],
                          env=as_before_2_6, capture_output=True, text=True)
    refused = done.returncode == 1 and "could run code" in done.stderr and not (folder / "harmed").exists()
    print("a file with code is " + ("refused" if refused else f"not refused: {done}"), flush=True)
    return refused


def refuses_what_is_no_state_dict():
    """Whether the script refuses, with a sentence, what is no state dict of real numbers; and finds those of wrapped modules."""
    weight = torch.ones(2)
    for state in ([weight], weight, {0: weight}, {"epoch": 3}, {"w": torch.ones(2, dtype=torch.complex64)}):
        try:
            torch_to_safetensors.weights_of(state)
        except SystemExit as refusal:
            print(refusal)
        else:
            print(f"{state} is not refused")
            return False
    wrapped = {"module._orig_mod.fc.weight": weight, "module._orig_mod.norm.num_batches_tracked": torch.tensor(3)}
    compiled_part = {"model": {"block._orig_mod.fc.weight": weight}}
    names = [list(torch_to_safetensors.weights_of(state)) for state in (wrapped, compiled_part)]
    print("names without wrappers:", names, flush=True)
    return names == [["fc.weight"], ["block.fc.weight"]]


def main():
    words = sys.argv[1:]
    build = pathlib.Path(words.pop(0)).resolve()
    python = None
    if "--onnx_runtime" in words:
        words.remove("--onnx_runtime")
        python = python_with_onnx_runtime()
        if python is None:
            print("skipped: ONNX Runtime is not here; `pip install onnxruntime` into a virtual environment, and name its "
                  "Python in TERN_ONNX_PYTHON")
            return SKIPPED
    failed = []
    with tempfile.TemporaryDirectory(prefix="tern_export.") as folder:
        if not refuses_code(pathlib.Path(folder)):
            failed.append("a file with code")
    if not refuses_what_is_no_state_dict():
        failed.append("what is no state dict")
    for model in (MODELS if words == ["all"] else words or QUICK):
        with tempfile.TemporaryDirectory(prefix="tern_export.") as folder:
            if not export(build, pathlib.Path(folder), model, python):
                failed.append(model)
    if failed:
        print(f"exported: over {BOUND}, or not refused: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
