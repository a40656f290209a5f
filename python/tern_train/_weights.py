"""Files of weights, as Tern reads and writes them: safetensors."""

import json
import os
import struct

import torch

from tern_train._client import TernError
from tern_train._memory import bytes_of
from tern_train._module import running_statistics, trained_parameters


def _tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(trained_parameters(module) + running_statistics(module))


def save_weights(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes the module's trained parameters and running statistics, as fp32, to a file for ``model.weights``."""
    header: dict[str, object] = {}
    parts: list[bytes] = []
    begin = 0
    for name, tensor in _tensors_of(module).items():
        parts.append(bytes_of(tensor.detach().to("cpu", torch.float32)))
        end = begin + len(parts[-1])
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{os.fspath(path)}.part"
    with open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)
    os.replace(temporary, path)


@torch.no_grad()
def load_weights(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Reads ``weights.safetensors``, ``weights_best.safetensors`` and their like of a job's ``output_dir`` into the module.

    Raises ``TernError`` (65) if the file lacks a trained parameter or a running statistic, or has another shape for it."""
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack_from("<Q", data) if len(data) >= 8 else (0,)
    try:
        header = json.loads(data[8 : 8 + size])
    except ValueError:
        raise TernError(65, f"{path}: saw no header of a safetensors file") from None
    for name, tensor in _tensors_of(module).items():
        entry = header.get(name)
        if entry is None or entry["shape"] != list(tensor.shape) or entry["dtype"] != "F32":
            saw = "no such tensor" if entry is None else f"{entry['dtype']} {entry['shape']}"
            raise TernError(65, f"{path}: {name}: saw {saw}; expected F32 {list(tensor.shape)}, as the module has it")
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
        tensor.copy_(values.view(tensor.shape))
