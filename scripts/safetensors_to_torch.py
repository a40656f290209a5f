#!/usr/bin/env python3
"""Converts a safetensors file of Tern to a PyTorch state dict: model.load_state_dict(torch.load("OUT.pt")).

    scripts/safetensors_to_torch.py WEIGHTS.safetensors OUT.pt

Needs only PyTorch.
"""
import json
import struct
import sys

import torch


def load(path):
    """Returns ({name: tensor} in the order of the file, its metadata as {text: text})."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: tensor {name} has dtype {entry['dtype']}; only F32 is read")
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(data[begin:end], dtype=torch.float32) if end > begin else torch.empty(0)
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: scripts/safetensors_to_torch.py WEIGHTS.safetensors OUT.pt")
    torch.save(load(sys.argv[1])[0], sys.argv[2])


if __name__ == "__main__":
    main()
