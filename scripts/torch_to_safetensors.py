#!/usr/bin/env python3
"""Converts a PyTorch state dict to a safetensors file, which `tern_worker --evaluate` and `tern convert onnx` read.

    scripts/torch_to_safetensors.py WEIGHTS.pt OUT.safetensors

Needs only PyTorch. Converts every tensor to float32; skips the batch counters (num_batches_tracked). If all names begin
with "module.", as in a checkpoint of DistributedDataParallel, leaves that out, and so it does with the "_orig_mod." of
torch.compile wherever it is. Refuses a file with anything but tensors of real numbers and plain values: to read it could run
code of whoever made the file.
"""
import ctypes
import json
import pickle
import struct
import sys

import torch


_NAMES = ("state_dict", "model", "model_state_dict")


def save(path, tensors, metadata=None):
    """Writes {name: tensor} in the given order. `metadata`: {text: text}."""
    header, parts, at = {}, [], 0
    if metadata:
        header["__metadata__"] = dict(metadata)
    for name, tensor in tensors.items():
        values = tensor.detach().to("cpu", torch.float32).contiguous()
        data = ctypes.string_at(values.data_ptr(), 4 * values.numel())  # PyTorch's own way to bytes needs NumPy
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        file.writelines(parts)


def load(path):
    """Reads a .pt file without running code that is in it."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        sys.exit(f"{path}: saw more than tensors and plain values, which could run code when read; expected a state dict: if you "
                 "trust whoever made the file, load it with PyTorch (weights_only=False), and save model.state_dict() alone "
                 f"({str(error).splitlines()[0]})")


def weights_of(state):
    """Returns the tensors of a state dict that Tern stores. A checkpoint may contain it under a key of _NAMES."""
    expected = f"expected a state dict, or one under {', '.join(_NAMES)}"
    if not isinstance(state, dict):
        sys.exit(f"saw a {type(state).__name__}; {expected}")
    state = next((state[name] for name in _NAMES if isinstance(state.get(name), dict)), state)
    others = [name for name, value in state.items() if not (isinstance(name, str) and isinstance(value, torch.Tensor))]
    if others:
        sys.exit(f"saw {', '.join(map(str, others[:5]))} in place of tensors; {expected}")
    complex_ones = [name for name, tensor in state.items() if tensor.is_complex()]
    if complex_ones:
        sys.exit(f"saw complex numbers in {', '.join(complex_ones[:5])}; expected real ones, which Tern's tensors have")
    state = {name.replace("_orig_mod.", ""): tensor for name, tensor in state.items()}
    prefix = "module." if all(name.startswith("module.") for name in state) else ""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: scripts/torch_to_safetensors.py WEIGHTS.pt OUT.safetensors")
    save(sys.argv[2], weights_of(load(sys.argv[1])), {"format": "pt"})


if __name__ == "__main__":
    main()
