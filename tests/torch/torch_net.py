"""Builds a PyTorch module from a NetDef (the JSON of `tern model NAME --json`), with the same layers and parameter names.

Uses PyTorch in the usual way: standard modules, in-place ReLU, no fused layers.
"""
import collections

import torch
from torch import nn
from torch.nn import functional


def camel(key):
    first, *rest = key.split("_")
    return first + "".join(word.title() for word in rest)


def option(kind, key, otherwise):
    return kind.get(camel(key), otherwise)


def same_padding(size, kernel, stride, dilation=1):
    """Returns the padding before and after for `same` (models/graph/shapes.h)."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


class Window(nn.Module):
    """Pads the input, then applies `inner`. Equal padding on both sides is left to `inner`."""

    def __init__(self, inner, pads, value=0.0):
        super().__init__()
        self.inner = inner
        self.pads = pads  # left, right, top, bottom; None: `inner` pads
        self.value = value

    def forward(self, x):
        return self.inner(x if self.pads is None else functional.pad(x, self.pads, value=self.value))


def window_of(kind, size):
    """Returns (padding of both sides, None) if it is equal, else (0, padding of all sides)."""
    if "pad" in kind or option(kind, "padding", "valid") == "valid":
        return kind.get("pad", 0), None
    rows, columns = (same_padding(n, kind["kernel"], option(kind, "stride", 1), option(kind, "dilation", 1)) for n in size)
    if rows == columns and rows[0] == rows[1]:
        return rows[0], None
    return 0, (*columns, *rows)


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Lrn(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.norm = nn.LocalResponseNorm(kind["size"], kind["alpha"], kind["beta"], kind["k"])

    def forward(self, x):
        return self.norm(x)


class Standardize(nn.Module):
    def forward(self, x):
        flat = x.flatten(1)
        deviation = flat.std(1, unbiased=False).clamp(min=flat.shape[1] ** -0.5)
        return (x - flat.mean(1).view(-1, 1, 1, 1)) / deviation.view(-1, 1, 1, 1)


class TorchNet(nn.Module):
    """forward(images) returns the scores; loss(scores, labels) computes Tern's loss layer."""

    def __init__(self, net):
        super().__init__()
        self.steps = []  # name, inputs, output
        self.smoothing = 0.0
        self.read = collections.Counter(name for layer in net["layers"] for name in layer["inputs"])
        shape = net["input"]
        shapes = {"data": (shape["channels"], shape["height"], shape["width"])}
        for layer in net["layers"]:
            if "softmaxLoss" in layer:
                self.smoothing = option(layer["softmaxLoss"], "label_smoothing", 0.0)
                continue
            inputs = [shapes[name] for name in layer["inputs"]]
            module, shapes[layer["output"]] = self.build(layer, inputs)
            self.add_module(self.key_of(layer), module or nn.Identity())
            self.steps.append((layer, layer["inputs"], layer["output"]))

    @staticmethod
    def key_of(layer):
        """Returns a valid module name: without dots, and different from attributes of nn.Module."""
        return "layer_" + layer["name"].replace(".", "__").replace("/", "__")

    def module_of(self, layer):
        return getattr(self, self.key_of(layer))

    def build(self, layer, inputs):
        channels, *size = inputs[0]
        if "conv" in layer:
            kind = layer["conv"]
            pad, pads = window_of(kind, size)
            conv = nn.Conv2d(channels, kind["outputs"], kind["kernel"], kind["stride"], pad, kind["dilation"], kind["groups"],
                             kind["bias"])
            return self.measured(Window(conv, pads), inputs[0])
        if "maxPool" in layer or "avgPool" in layer:
            return self.measured(self.pool(layer, size), inputs[0])
        if "dense" in layer:
            flat = channels * size[0] * size[1]
            return nn.Sequential(nn.Flatten(), nn.Linear(flat, layer["dense"]["outputs"])), (layer["dense"]["outputs"], 1, 1)
        if "relu" in layer:
            most = layer["relu"].get("max")
            alone = self.read[layer["inputs"][0]] == 1  # in place only if no other layer reads the input
            return (nn.ReLU(inplace=alone) if most is None else nn.Hardtanh(0, most, inplace=alone)), inputs[0]
        if "gelu" in layer:
            return nn.GELU(), inputs[0]
        if "scale" in layer:
            return Scale(layer["scale"]["factor"]), inputs[0]
        if "batchNorm" in layer:
            kind = layer["batchNorm"]
            return nn.BatchNorm2d(channels, kind["epsilon"], kind["momentum"]), inputs[0]
        if "lrn" in layer:
            return Lrn(layer["lrn"]), inputs[0]
        if "dropout" in layer:
            return nn.Dropout(layer["dropout"]["rate"]), inputs[0]
        if "standardize" in layer:
            return Standardize(), inputs[0]
        if "add" in layer:
            return None, inputs[0]
        return None, (sum(one[0] for one in inputs), *size)  # concat

    @staticmethod
    def pool(layer, size):
        maximum = "maxPool" in layer
        kind = layer["maxPool" if maximum else "avgPool"]
        if kind["global"]:
            return nn.AdaptiveMaxPool2d(1) if maximum else nn.AdaptiveAvgPool2d(1)
        pad, pads = window_of(kind, size)
        if maximum:
            return Window(nn.MaxPool2d(kind["kernel"], kind["stride"], pad), pads, float("-inf"))
        if pads is not None:
            raise ValueError("average pooling with uneven padding is not supported")
        return nn.AvgPool2d(kind["kernel"], kind["stride"], pad, count_include_pad=option(kind, "include_padding", False))

    @staticmethod
    def measured(module, shape):
        with torch.no_grad():
            return module, tuple(module(torch.zeros(1, *shape)).shape[1:])

    def forward(self, images):
        values = {"data": images}
        for layer, inputs, output in self.steps:
            read = [values[name] for name in inputs]
            if "add" in layer:
                total = read[0]
                for value in read[1:]:
                    total = total + value
                values[output] = total
            elif "concat" in layer:
                values[output] = torch.cat(read, 1)
            elif "batchNorm" in layer and read[0].dim() == 2:
                values[output] = self.module_of(layer)(read[0][:, :, None, None])[:, :, 0, 0]
            else:
                values[output] = self.module_of(layer)(read[0])
        return values[self.steps[-1][2]].flatten(1)

    def loss(self, scores, labels):
        return functional.cross_entropy(scores, labels, label_smoothing=self.smoothing)

    def named_by_layer(self):
        """Returns parameters and running statistics as {"LAYER.weight": tensor}."""
        for layer, _, _ in self.steps:
            for name, tensor in [*self.module_of(layer).named_parameters(), *self.module_of(layer).named_buffers()]:
                yield layer["name"] + "." + name.rsplit(".", 1)[-1], tensor
