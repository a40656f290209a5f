"""The workers of trainer_test.py, with TERN_JOB and TERN_RANK: trainer_worker.py PROGRAM [ARGUMENT...]"""
import hashlib
import logging
import os
import sys
import threading

import torch
import torch.nn.functional as F

import tern_train as tern

RANK = int(os.environ["TERN_RANK"])


def digest(module):
    state = hashlib.sha256()
    for parameter in module.parameters():
        state.update(parameter.detach().float().contiguous().numpy().tobytes())
    return state.hexdigest()


def show(name, module):
    print(f"weights of {name}: {digest(module)}", flush=True)


def batch(step, rank, shape, classes, size=8):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(size, *shape, generator=generator), torch.randint(classes, (size,), generator=generator)


def lenet():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 20, 5), torch.nn.MaxPool2d(2), torch.nn.Conv2d(20, 50, 5), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(800, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10))


def small(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.BatchNorm1d(12), torch.nn.Tanh(), torch.nn.Linear(12, 3))


def lenet_of_both_levels(module_job, client_job, steps, rate, update):
    """The same training by Tern, and by a loop of one's own: with Tern's equation ("equation"), or PyTorch's optimizer ("SGD")."""
    net = lenet()
    with tern.torch.Trainer(net, module_job) as trainer:
        for step in trainer.steps():
            x, y = batch(step, RANK, (1, 28, 28), 10)
            trainer.backward(F.cross_entropy(net(x), y))
    show("module", net)
    trained = torch.cat([parameter.detach().flatten().clone() for parameter in net.parameters()])

    net = lenet()
    wrapped = tern.torch.ddp(net, client_job)
    optimizer = torch.optim.SGD(net.parameters(), lr=float(rate))
    for step in range(int(steps)):
        x, y = batch(step, RANK, (1, 28, 28), 10)
        F.cross_entropy(wrapped(x), y).backward()
        if update == "SGD":
            optimizer.step()  # It contracts the multiplication and the subtraction.
        else:
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.sub_(parameter.grad.mul(float(rate)))
        wrapped.zero_grad()
    show("client", net)
    own = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    print(f"difference {((trained - own).norm() / trained.norm()).item():.3g}")
    wrapped.tern.finish()


def train(name="train", pause_at=""):
    """Trains a small module with a batch norm, and waits for a line of input before the step `pause_at`."""
    net = small(seed=RANK)
    with tern.torch.Trainer(net) as trainer:
        for step in trainer.steps():
            print(f"step {step}", flush=True)
            if str(step) == pause_at:
                sys.stdin.readline()
            x, y = batch(step, RANK, (6,), 3)
            trainer.backward(F.cross_entropy(net(x), y))
        print("all steps", flush=True)
    show(name, net)


def ways(*names_and_jobs):
    """Modules and loops of many kinds, each in a job of its own."""
    for pair in names_and_jobs:
        name, job = pair.split("=")
        net = {"unused": Unused, "tied": Tied, "bfloat16": lambda: small().bfloat16(), "frozen": frozen}.get(name, small)()
        untouched = [p.detach().clone() for p in net.parameters() if not p.requires_grad]
        was_view = True
        with tern.torch.Trainer(net, job, evaluate=lambda part, parts: evaluate(net, part, parts)) as trainer:
            addresses = None
            for step in trainer.steps():
                now = [(p.data_ptr(), p.grad.data_ptr()) for p in net.parameters() if p.grad is not None]
                was_view = was_view and (addresses is None or now == addresses)
                addresses = now
                if name == "memory":  # Tern's, tensor behind tensor
                    (value, gradient), sizes = now[0], [p.numel() for p in net.parameters()]
                    for (next_value, next_gradient), size in zip(now, sizes):
                        assert (next_value, next_gradient) == (value, gradient)
                        value, gradient = value + 4 * size, gradient + 4 * size
                    assert now[0][0] == trainer.client.memory(tern.Memory.VALUES, 0)
                x, y = batch(step, RANK, (6,), 3)
                if name == "accumulated":
                    for half in (slice(0, 4), slice(4, 8)):
                        trainer.backward(F.cross_entropy(net(x[half]), y[half]) / 2, is_last=half.start == 4)
                elif name == "zero_grad":
                    net.zero_grad()  # sets gradients to None, as scripts do
                    trainer.backward(F.cross_entropy(net(x), y))
                else:
                    trainer.backward(F.cross_entropy(net(x.to(next(net.parameters()).dtype)), y))
        assert was_view, name
        assert all(torch.equal(a, b) for a, b in zip(untouched, (p for p in net.parameters() if not p.requires_grad)))
        for p in net.parameters():
            p.detach().add_(0)  # memory of its own again
        show(name, net)


@torch.no_grad()
def evaluate(net, part, parts):
    assert not net.training
    x, y = batch(10**6, 0, (6,), 3, size=40)
    x, y = x[part::parts].to(next(net.parameters()).dtype), y[part::parts]
    scores = net(x)
    return tern.torch.Score(F.cross_entropy(scores, y, reduction="sum").item(), len(y), int((scores.argmax(1) == y).sum()))


class Scale(torch.nn.Module):
    """Parameters without a dimension, one of them frozen."""

    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(1.5))
        self.shift = torch.nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, x):
        return self.factor * x + self.shift


def frozen():
    net = small().append(Scale())
    net[0].weight.requires_grad = False
    return net


class Unused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.used, self.unused = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.used(x)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


def wrong(kind):
    """What a loop may do wrong on rank 0."""
    net = small()
    if kind == "frozen_differs":
        net = frozen()
        net[0].weight.detach().add_(RANK)
    with tern.torch.Trainer(net) as trainer:
        for step in trainer.steps():
            x, y = batch(step, RANK, (6,), 3)
            if RANK == 0 and step == 2:
                if kind == "break":
                    break
                if kind == "raise":
                    raise ValueError("my own error")
                if kind == "no_backward":
                    continue
                if kind == "twice":
                    trainer.backward(F.cross_entropy(net(x), y))
                if kind == "nan":
                    y = y * float("nan")
                    trainer.backward((net(x) * float("nan")).sum())
                    continue
            trainer.backward(F.cross_entropy(net(x), y))


def wrong_job(kind):
    try:
        {"ddp": tern.torch.ddp, "Trainer": tern.torch.Trainer}[kind](small())
    except tern.TernError as error:
        print(f"{error.code}: {error}")


# --- Equations in double precision

class Double:
    """The gradient of a two-layer perceptron, in double precision, at weights that are one vector."""

    def __init__(self):
        self.net = self.make().double()

    @staticmethod
    def make():
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))

    def gradient(self, weights, step, rank):
        torch.nn.utils.vector_to_parameters(weights, self.net.parameters())
        self.net.zero_grad()
        self.loss(self.net, step, rank).backward()
        return torch.cat([p.grad.flatten() for p in self.net.parameters()]).clone()

    @staticmethod
    def loss(net, step, rank):
        x, y = batch(step, rank, (6,), 3)
        return F.cross_entropy(net(x.to(next(net.parameters()).dtype)), y)


def flat(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()]).double()


class TwoWorkers:
    """Both workers of a job in this process. Gradients are computed in turns, so that the order of pushes is known."""

    def __init__(self, job):
        self.nets = [Double.make(), Double.make()]
        self.trainers = [tern.torch.Trainer(net, job, rank=rank) for rank, net in enumerate(self.nets)]
        self.steps = [trainer.steps() for trainer in self.trainers]
        self.farthest = 0.0

    def begin(self, rank, expected):
        """Waits for the worker's next step, and compares its weights."""
        step = next(self.steps[rank])
        distance = ((flat(self.nets[rank]) - expected).norm() / expected.norm()).item()
        self.farthest = max(self.farthest, distance)
        return step

    def push(self, rank, step):
        self.trainers[rank].backward(Double.loss(self.nets[rank], step, rank))

    def end(self):
        """Lets both workers go on, at once, until the job ends."""
        def go_on(rank):
            for step in self.steps[rank]:
                self.push(rank, step)
        threads = [threading.Thread(target=go_on, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for trainer in self.trainers:
            trainer.finish()

    def compare_end(self, expected):
        for net in self.nets:
            self.farthest = max(self.farthest, ((flat(net) - expected).norm() / expected.norm()).item())


RATE, STEPS = 0.05, 30


def in_rounds(job, algorithm):
    """Algorithms whose workers push in the same step. x[i]: the weights of worker i; W: those on which they agree."""
    workers, double = TwoWorkers(job), Double()
    W = flat(Double.make())
    x, previous_W = [W, W], W
    for s in range(STEPS):
        steps = [workers.begin(i, x[i]) for i in range(2)]
        assert steps == [s, s], steps
        for i in range(2):
            workers.push(i, s)
        g = [double.gradient(x[i], s, i) for i in range(2)]
        mean = (g[0] + g[1]) / 2
        if algorithm == "odsgd":  # OD-SGD, algorithm 2, with a warm-up of 4 steps
            previous_W, W = W, W - RATE * mean
            x = [W, W] if s < 4 else [previous_W - 0.03 * g[i] for i in range(2)]
        elif algorithm == "pqasgd":  # PQASGD, every 5 steps the mean change
            x = [x[i] - RATE * g[i] for i in range(2)]
            if (s + 1) % 5 == 0:
                W = W + ((x[0] - W) + (x[1] - W)) / 2
                x = [W, W]
        elif algorithm == "easgd":  # survey, equations 2 to 4, every 3 steps, alpha = 0.1
            pull = [0.1 * (x[i] - W) if s > 0 and s % 3 == 0 else 0 * W for i in range(2)]
            x = [x[i] - RATE * g[i] - pull[i] for i in range(2)]
            W = W + pull[0] + pull[1]
    workers.end()
    workers.compare_end(W)
    print(f"farthest of {algorithm}: {workers.farthest:.2e}", flush=True)


def at_once(job, algorithm):
    """Algorithms whose servers apply each push at once. w: the servers' weights; x[i]: those that worker i has."""
    workers, double = TwoWorkers(job), Double()
    w = flat(Double.make())
    x, mean_square, next_step = [w, w], [0 * w, 0 * w], [0, 0]
    for i in range(2):
        workers.begin(i, x[i])
    order = [0, 0, 1, 1, 1, 0] * (STEPS // 3)
    for i in order:
        workers.push(i, next_step[i])
        g = double.gradient(x[i], next_step[i], i)
        next_step[i] += 1
        if algorithm == "dcasgd_a":  # DC-ASGD, equation 10, with one mean square per worker
            mean_square[i] = 0.9 * mean_square[i] + 0.1 * g * g
            g = g + 2 / (mean_square[i] + 1e-7).sqrt() * g * g * (w - x[i])
        w = w - RATE * g
        x[i] = w
        if next_step[i] < STEPS:
            assert workers.begin(i, x[i]) == next_step[i]
    workers.end()  # A worker may make a step more than the other, in any order.
    print(f"farthest of {algorithm}: {workers.farthest:.2e}", flush=True)


def equations(*algorithms_and_jobs):
    for pair in algorithms_and_jobs:
        algorithm, job = pair.split("=")
        (in_rounds if algorithm in ("odsgd", "pqasgd", "easgd") else at_once)(job, algorithm)


def first_weights(path):
    tern.torch.save_weights(Double.make(), path)
    other = Double.make()
    for parameter in other.parameters():
        parameter.detach().zero_()
    tern.torch.load_weights(other, path)
    assert digest(other) == digest(Double.make())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    globals()[sys.argv[1]](*sys.argv[2:])
