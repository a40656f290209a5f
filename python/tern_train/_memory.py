"""The memory of tensors."""

import ctypes

import torch


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The numbers of a tensor in the order of its indices. Needs no NumPy, which PyTorch does not require."""
    numbers = tensor.detach().cpu().contiguous()
    return ctypes.string_at(numbers.data_ptr(), numbers.numel() * numbers.element_size()) if numbers.numel() else b""


def in_layout_of(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient of DistributedDataParallel's bucket, by the indices of its parameter.

    The memory of a bucket has the order of the parameter's memory (channels_last, for instance) if that has neither gaps nor
    overlaps, else the order of the indices; ``GradBucket.gradients()`` shows all as if by indices.
    """
    dense_stride = 1
    for size, stride in sorted(zip(parameter.shape, parameter.stride()), key=lambda dimension: dimension[1]):
        if size != 1 and stride != dense_stride:
            return gradient
        dense_stride *= size
    return gradient.as_strided(parameter.size(), parameter.stride(), gradient.storage_offset())
