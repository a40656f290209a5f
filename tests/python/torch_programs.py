"""What torch_worker.py trains: each program takes `wrap`, which makes a DistributedDataParallel of a module, and returns
the module that it has trained. The same program runs over Tern and, for comparison, over gloo. With TERN_TEST_DEVICE=cuda,
modules and data are on the GPU."""
import contextlib
import os

import torch
from torch.nn import functional

RANK = int(os.environ["TERN_RANK"])
DEVICE = os.environ.get("TERN_TEST_DEVICE", "cpu")
if DEVICE != "cpu":
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_default_device(DEVICE)
HAS_SCALER = hasattr(torch.amp, "GradScaler")  # which works on the CPU: from PyTorch 2.3 on
# Small buckets, so that there are several; DistributedDataParallel cuts them anew after the first step.
SMALL = {"bucket_cap_mb": 0.002}


def conv_net():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(),
                         nn.Linear(6 * 9, 20), nn.ReLU(), nn.Linear(20, 5))


class Branches(torch.nn.Module):
    """Each call uses one of two layers; a third is never used."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 5)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.unused = torch.nn.Linear(3, 3)
        self.branch = 0

    def forward(self, x):
        return self.last(torch.relu(self.branches[self.branch](self.first(x))))


class Tied(torch.nn.Module):
    """A language model whose output layer has the weights of its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.hidden, self.out = torch.nn.Embedding(5, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 5, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(self.embedding(x))))


def batches(count, shape, seed=0):
    """Samples and classes of this rank."""
    generator = torch.Generator("cpu").manual_seed(1000 + 10 * seed + RANK)
    for _ in range(count):
        yield (torch.randn(8, *shape, generator=generator, device="cpu").to(DEVICE),
               torch.randint(0, 5, (8,), generator=generator, device="cpu").to(DEVICE))


def optimizer_of(module, momentum=0.9):
    return torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.05, momentum=momentum)


def train(net, data, before_step=lambda: None, change=lambda x: x):
    optimizer = optimizer_of(net)
    for x, y in data:
        optimizer.zero_grad()
        functional.cross_entropy(net(change(x)).float(), y).backward()
        before_step()
        optimizer.step()


def images(count=6):
    return batches(count, (1, 12, 12))


def simple(wrap, **ddp_arguments):
    module = conv_net()
    train(wrap(module, **SMALL, **ddp_arguments), images())
    return module


def views(wrap):
    return simple(wrap, gradient_as_bucket_view=True)


def static(wrap):
    return simple(wrap, static_graph=True)


def accumulation(wrap):
    module = conv_net()
    net = wrap(module, **SMALL)
    optimizer = optimizer_of(module)
    for number, (x, y) in enumerate(images(9)):
        is_last = number % 3 == 2
        with contextlib.nullcontext() if is_last else net.no_sync():
            functional.cross_entropy(net(x), y).backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
    return module


def clipping(wrap):
    module = conv_net()
    train(wrap(module, **SMALL), images(), lambda: torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5))
    return module


def unused(wrap, set_to_none=True, **ddp_arguments):
    """Which branch is used depends on the step and, in every third one, on the rank. Without momentum a gradient of zeros,
    which is what Tern gives to parameters that no rank has used, is as good as none."""
    module = Branches()
    net = wrap(module, find_unused_parameters=True, **SMALL, **ddp_arguments)
    optimizer = optimizer_of(module, momentum=0)
    for step, (x, y) in enumerate(batches(9, (8,))):
        module.branch = RANK % 2 if step % 3 == 0 else step % 2
        optimizer.zero_grad(set_to_none)
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return module


def unused_zeros(wrap):
    return unused(wrap, set_to_none=False)


def unused_views(wrap):
    return unused(wrap, gradient_as_bucket_view=True)


def static_unused(wrap):
    """In a graph that never changes, but differs by rank."""
    module = Branches()
    module.branch = RANK % 2
    train(wrap(module, static_graph=True, **SMALL), batches(6, (8,)))
    return module


def frozen(wrap):
    module = conv_net()
    for parameter in module[0].parameters():
        parameter.requires_grad = False
    train(wrap(module, **SMALL), images())
    return module


def tied(wrap):
    module = Tied()
    net = wrap(module, **SMALL)
    optimizer = optimizer_of(module)
    for _, y in batches(6, ()):
        optimizer.zero_grad()
        functional.cross_entropy(net(y), (y + 1) % 5).backward()
        optimizer.step()
    return module


def sparse(wrap):
    """An embedding with gradients of the rows that were used, which are others on each rank."""
    module = torch.nn.Sequential(torch.nn.Embedding(20, 4, sparse=True), torch.nn.Linear(4, 5))
    net = wrap(module)
    optimizer = optimizer_of(module, momentum=0)
    for number, (_, y) in enumerate(batches(6, ())):
        optimizer.zero_grad()
        rows = torch.arange(8, device=DEVICE) + 4 * RANK + number
        functional.cross_entropy(net(rows), y).backward()
        assert module[0].weight.grad.is_sparse
        optimizer.step()
    return module


def channels_last(wrap):
    module = conv_net().to(memory_format=torch.channels_last)
    train(wrap(module, **SMALL), images(), change=lambda x: x.to(memory_format=torch.channels_last))
    return module


class Pictures(torch.nn.Module):
    """Each call uses one of two convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(1, 4, 3), torch.nn.Linear(5 * 64, 5)
        self.branches = torch.nn.ModuleList(torch.nn.Conv2d(4, 5, 3) for _ in range(2))
        self.branch = 0

    def forward(self, x):
        return self.last(torch.relu(self.branches[self.branch](self.first(x))).flatten(1))


def unused_channels_last(wrap, **ddp_arguments):
    """Gradients in another order than that of their indices, some of which only the other rank has."""
    module = Pictures().to(memory_format=torch.channels_last)
    net = wrap(module, find_unused_parameters=True, **SMALL, **ddp_arguments)
    optimizer = optimizer_of(module, momentum=0)
    for step, (x, y) in enumerate(images()):
        module.branch = RANK % 2 if step % 2 == 0 else 0
        optimizer.zero_grad(set_to_none=step % 3 == 0)
        functional.cross_entropy(net(x.to(memory_format=torch.channels_last)), y).backward()
        optimizer.step()
    return module


def unused_channels_last_views(wrap):
    return unused_channels_last(wrap, gradient_as_bucket_view=True)


def float64(wrap):
    module = conv_net().double()
    train(wrap(module, **SMALL), images(), change=lambda x: x.double())
    return module


def bfloat16(wrap):
    module = conv_net().bfloat16()
    train(wrap(module, **SMALL), images(), change=lambda x: x.bfloat16())
    return module


def loader(wrap):
    """The data come from two forked processes, started after the job has begun."""
    module = conv_net()
    net = wrap(module, **SMALL)
    samples = [(x[0].cpu(), y[0].cpu()) for x, y in images(48)]
    with torch.device("cpu"):  # of the loader's random numbers
        for _ in range(2):
            loaded = torch.utils.data.DataLoader(samples, batch_size=8, num_workers=2, multiprocessing_context="fork")
            train(net, ((x.to(DEVICE), y.to(DEVICE)) for x, y in loaded))
    return module


def scaler(wrap, overflows_in=None):
    """With a loss scale. overflows_in: the step in which the gradient overflows on rank 1."""
    module = conv_net()
    net = wrap(module, **SMALL)
    optimizer = optimizer_of(module)
    scale = torch.amp.GradScaler(DEVICE, init_scale=1024.0)
    for step, (x, y) in enumerate(images()):
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        scale.scale(loss * (float("inf") if step == overflows_in and RANK == 1 else 1.0)).backward()
        scale.step(optimizer)
        scale.update()
    if hasattr(net, "tern"):
        assert net.tern.overflowed_steps == (overflows_in is not None), net.tern.overflowed_steps
    return module


def overflow(wrap):
    """A step that both ranks skip, because the gradient of one overflows."""
    return scaler(wrap, overflows_in=2)


def evaluation(wrap):
    """Only rank 0 evaluates, while the other already waits in the next step."""
    module = conv_net()
    net = wrap(module, **SMALL)
    for number in range(3):
        train(net, batches(2, (1, 12, 12), seed=number))
        if RANK == 0:
            net.eval()
            with torch.no_grad():
                for x, _ in images(5):
                    net.module(x)
            net.train()
    return module


def compiled(wrap):
    module = conv_net()
    train(torch.compile(wrap(module)), images())  # It has its own idea of buckets.
    return module


PROGRAMS = {program.__name__: program for program in (
    simple, views, static, accumulation, clipping, unused, unused_zeros, unused_views, static_unused, frozen, tied, sparse, channels_last,
    unused_channels_last, unused_channels_last_views,
    float64, bfloat16, loader, scaler, overflow, evaluation, compiled) if HAS_SCALER or program not in (scaler, overflow)}
