#!/usr/bin/env python3
"""A PyTorch state dict as a safetensors file, which `tern_worker --evaluate` and `tern convert onnx` read.

    scripts/torch_to_safetensors.py WEIGHTS.pt OUT.safetensors

Needs PyTorch alone. Every tensor becomes float32; what counts batches (num_batches_tracked) is left out.
"""
import json
import struct
import sys

import torch


def save(path, tensors, metadata=None):
    """Writes {name: tensor} in that order. `metadata`: {text: text}."""
    header, parts, at = {}, [], 0
    if metadata:
        header["__metadata__"] = dict(metadata)
    for name, tensor in tensors.items():
        data = tensor.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        file.writelines(parts)


def weights_of(state):
    """The tensors of a state dict that Tern keeps; of a checkpoint that holds one, those of `state_dict`."""
    state = state.get("state_dict", state)
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: scripts/torch_to_safetensors.py WEIGHTS.pt OUT.safetensors")
    save(sys.argv[2], weights_of(torch.load(sys.argv[1], map_location="cpu")), {"format": "pt"})


if __name__ == "__main__":
    main()
