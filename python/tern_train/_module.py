"""What a job must know of a PyTorch module."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from tern_train._client import Tensor, TernError
from tern_train._memory import bytes_of


def _ignored(module: torch.nn.Module) -> frozenset[str]:
    """The parameters and buffers that DistributedDataParallel leaves alone."""
    return frozenset(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))


def parameters_of(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """The parameters, each once, in the module's order, without those that DistributedDataParallel ignores."""
    ignored = _ignored(module)
    kept = {  # by the names that it knows, of which those of the root begin with a dot
        id(p)
        for prefix, part in module.named_modules()
        for name, p in part.named_parameters(recurse=False)
        if f"{prefix}.{name}" not in ignored
    }
    return [(name, p) for name, p in module.named_parameters() if id(p) in kept]


def trained_parameters(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Those of them that have gradients."""
    return [(name, p) for name, p in parameters_of(module) if p.requires_grad]


def table_of(parameters: Iterable[tuple[str, torch.nn.Parameter]]) -> list[Tensor]:
    """``TernError`` if a parameter is complex: Tern exchanges real numbers."""
    parameters = list(parameters)
    for name, parameter in parameters:
        if parameter.is_complex():
            raise TernError(
                64,
                f"{name}: saw a complex parameter, and Tern exchanges real numbers; make it a real one with a last "
                "dimension of 2, and use torch.view_as_complex(it) in forward()",
            )
    return [Tensor(name, tuple(parameter.shape)) for name, parameter in parameters]


def describe(module: torch.nn.Module) -> str:
    """The module's table of tensors as JSON, for ``tern check`` and ``tern forecast`` with ``--set train.tensors=FILE``."""
    rows = [{"name": tensor.name, "shape": list(tensor.shape)} for tensor in table_of(trained_parameters(module))]
    return json.dumps({"tensors": rows})


def digest_of(tensors: Iterable[tuple[str, torch.Tensor]]) -> int:
    """A digest of tensors and their names, of 64 bits; 0 if there are none."""
    digest, count = hashlib.sha256(), 0
    for name, tensor in tensors:
        count += 1
        digest.update(name.encode())
        digest.update(bytes_of(tensor))
    return int.from_bytes(digest.digest()[:8], "little") if count else 0


def no_gradients(missing: Sequence[tuple[str, torch.nn.Parameter]]) -> TernError:
    """The error if a backward pass does not give these parameters."""
    # Some have a gradient, but stand behind one that has none.
    names = [name for name, p in missing if p.grad is None] or [name for name, _ in missing]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return TernError(
        64,
        f"parameters had no gradient in this backward pass, among {', '.join(names[:8])}{more}: use all parameters in every "
        "forward pass, or give ddp (DistributedDataParallel) find_unused_parameters=True",
    )


def refuse_sync_batch_norm(module: torch.nn.Module) -> None:
    """``TernError`` if the module has a SyncBatchNorm."""
    for name, submodule in module.named_modules():
        if isinstance(submodule, torch.nn.SyncBatchNorm):
            raise TernError(
                64,
                f"{name or 'the module'}: saw a SyncBatchNorm, whose statistics need an all-reduce in the forward pass, "
                "which Tern has not; use BatchNorm, whose statistics stay local",
            )


def running_statistics(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The running means and variances of the module's batch norms, by turns, with their names."""
    statistics: list[tuple[str, torch.Tensor]] = []
    for prefix, norm in module.named_modules():
        if isinstance(norm, torch.nn.modules.batchnorm._BatchNorm) and norm.running_mean is not None:
            begin = f"{prefix}." if prefix else ""
            assert norm.running_var is not None
            statistics += [(begin + "running_mean", norm.running_mean), (begin + "running_var", norm.running_var)]
    return statistics


class ModuleState:
    """A module's parameters and buffers, those that are not in its ``state_dict()`` included, without what
    DistributedDataParallel ignores: what all workers get from rank 0."""

    _PREFIX = "tern.buffer:"  # of the names of buffers with persistent=False

    def __init__(self, module: torch.nn.Module):
        self._module = module

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._module.state_dict()
        ignored = _ignored(self._module)
        others = {self._PREFIX + name: b for name, b in self._module.named_buffers() if name not in state and name not in ignored}
        for name in ignored:
            state.pop(name, None)
        state.update(others)
        return state

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        own = self._module.state_dict()
        state.update({name: own[name] for name in _ignored(self._module) if name in own})
        others = {name: state.pop(name) for name in list(state) if name.startswith(self._PREFIX)}
        self._module.load_state_dict(state, strict)
        for name, buffer in self._module.named_buffers():
            value = others.get(self._PREFIX + name)
            # What has another shape is a cache that grows with the data. What is equal may be memory that cannot be written,
            # as of an expanded tensor.
            if value is not None and value.shape == buffer.shape and not torch.equal(value.to(buffer.dtype), buffer.cpu()):
                buffer.copy_(value)
