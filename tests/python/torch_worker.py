"""The workers of torch_test.py, with TERN_JOB and TERN_RANK.

  torch_worker.py PROGRAM [ARGUMENT...]            a function of this file, or one of torch_programs.py over Tern
  torch_worker.py plain FILE WORLD PROGRAM...      programs of torch_programs.py over gloo, which meets in the file
  torch_worker.py over_tern PROGRAM=JOB...         the same over Tern, each in a job of its own
"""
import copy
import hashlib
import logging
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_programs as programs
from torch_programs import PROGRAMS, RANK, SMALL, images, train

import tern_train as tern
from tern_train._client import EventType


def digest(module):
    state = hashlib.sha256()
    for parameter in module.parameters():
        state.update(parameter.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())
    return state.hexdigest()


def show(name, module):
    assert all(torch.isfinite(p).all() for p in module.parameters()), name
    print(f"weights of {name}: {digest(module)}", flush=True)


def run(name, wrap):
    torch.manual_seed(1)
    show(name, PROGRAMS[name](wrap))


def plain(meeting_file, world, *names):
    join_group(meeting_file, world)
    for name in names:
        run(name, DistributedDataParallel)


def over_tern(*programs_and_jobs):
    for pair in programs_and_jobs:
        name, job = pair.split("=")
        nets = []
        own = {"skips_overflow": True} if name == "overflow" else {}

        def wrap(module, job=job, nets=nets, own=own, **more):
            nets.append(tern.torch.ddp(module, job, **own, **more))
            return nets[0]
        run(name, wrap)
        nets[0].tern.finish()


def join_group(meeting_file, world):
    dist.init_process_group("gloo", init_method=f"file://{meeting_file}", rank=RANK, world_size=int(world))


def own_group(meeting_file, world):
    """The script has made a process group of all workers, which says the ranks, and uses it for other things."""
    join_group(meeting_file, world)
    del os.environ["TERN_RANK"]
    assert tern.torch.rank_of_environment() == RANK and tern.torch.world_size_of_environment() == int(world)
    run("unused", tern.torch.ddp)
    sum_of_ranks = torch.tensor(RANK)
    dist.all_reduce(sum_of_ranks)
    assert sum_of_ranks == sum(range(int(world)))


def hook_alone():
    """As power users do it."""
    def wrap(module, **arguments):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        net = DistributedDataParallel(module, **arguments)
        net.register_comm_hook(tern.torch.Exchange(module), tern.torch.hook)
        return net
    run("simple", wrap)


def two_models(other_job):
    """Two models in one process, each in a job of its own, that train in turns."""
    torch.manual_seed(1)
    modules = [programs.conv_net(), programs.conv_net()]
    nets = [tern.torch.ddp(module, job, **SMALL) for module, job in zip(modules, (os.environ["TERN_JOB"], other_job))]
    for seed in range(3):
        for net in nets:
            train(net, programs.batches(2, (1, 12, 12), seed))
    for number, module in enumerate(modules):
        show(f"model {number}", module)


def averaged_buffers():
    """After each step the running statistics are the means over the workers, and weights and codes as without that."""
    torch.manual_seed(1)
    module = programs.conv_net()
    net = tern.torch.ddp(module, average_buffers=True, compare="hash", compare_every=2, **SMALL)
    train(net, images())
    print("statistics:", [round(number, 6) for number in module[1].running_mean.tolist() + module[1].running_var.tolist()])
    show("averaged_buffers", module)


def part_ways(compare, change):
    """Rank 1 changes a weight by itself, after the third step."""
    torch.manual_seed(1)
    module = programs.conv_net()
    net = tern.torch.ddp(module, compare=compare, compare_every=2)
    train(net, images(3))
    if RANK == 1:
        module[0].weight.detach()[0, 0, 0, 0] += float(change)
    train(net, images(5))
    print("all steps")


def raise_in_the_loop():
    torch.manual_seed(1)
    def before_step():
        if RANK == 1:
            raise ValueError("on purpose")
    train(tern.torch.ddp(programs.conv_net()), images(50), before_step)


def raise_in_with():
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    with net.tern:
        train(net, images(3))
        if RANK == 1:
            raise ValueError("on purpose")
        train(net, images(50))


def exit_in_with():
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    with net.tern:
        train(net, images(3))
        sys.exit(0)


def wrong_tensors():
    """Exchanges means by hand, at first of tensors that are not the gradients."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    with tern.torch.Exchange(module) as exchange:
        ones = [torch.ones(parameter.shape) for parameter in exchange.parameters]
        for tensors in (ones[1:], [ones[1], *ones[1:]], [None, *ones[1:]], [ones[0] * 1j, *ones[1:]]):
            try:
                exchange.mean_(tensors)
            except tern.TernError as error:
                print(f"{error.code}: {error}")
        exchange.mean_(ones)
        print("mean:", ones[0].mean().item())
        try:
            copy.deepcopy(exchange)
        except tern.TernError as error:
            print(f"{error.code}: {error}")


def means_of_parameters():
    """The parameters themselves, which are leaves with gradients. The means are copied back, because they are bfloat16."""
    module = torch.nn.Linear(3, 2).to(torch.bfloat16)
    with tern.torch.Exchange(module) as exchange:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(2 * RANK)
        exchange.mean_(exchange.parameters)
        print("mean:", module.weight.mean().item())


def unwritable_means():
    """Tensors into which nothing can be written, because their elements share memory."""
    module = torch.nn.Linear(3, 2)
    exchange = tern.torch.Exchange(module)
    exchange.mean_([torch.ones(1, 1).expand(2, 3), torch.ones(2)])


def own_group_uneven(meeting_file, world):
    """In a process group of all workers, worker 1 has more data than worker 0, and batch norms statistics of their own."""
    join_group(meeting_file, world)
    torch.manual_seed(1)
    module = programs.conv_net()
    train(tern.torch.ddp(module, **SMALL), images(3 + 3 * RANK))
    print("statistics:", module[1].running_mean.tolist())


def samplers():
    """The process group says rank 0 of 1."""
    torch.manual_seed(1)
    train(tern.torch.ddp(programs.conv_net()), images(1))
    print("samples:", list(tern.torch.sampler(range(8), shuffle=False)))


def late_end():
    """Worker 1 leaves the job. Worker 0 goes on with a step before its other thread has said that the job has ended."""
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    train(net, images(2))
    if RANK == 1:
        net.tern.close(75, "worker 1 has left on purpose")
        return
    poll, is_over = net.tern.client.poll, threading.Event()

    def slow_poll(timeout_s):
        event = poll(timeout_s)
        if event.type == EventType.ENDED:
            is_over.set()
            time.sleep(0.5)
        return event
    net.tern.client.poll = slow_poll
    is_over.wait()
    try:
        train(net, images(1))
    except tern.Ended as ended:
        print("ended:", ended)


def overflow():
    torch.manual_seed(1)
    programs.scaler(tern.torch.ddp, overflows_in=2)


def uneven():
    """Worker 1 has more data than worker 0."""
    torch.manual_seed(1)
    train(tern.torch.ddp(programs.conv_net()), images(3 + 3 * RANK))


def sync_batch_norm():
    tern.torch.ddp(torch.nn.SyncBatchNorm.convert_sync_batchnorm(programs.conv_net()))


def complex_parameters(way):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, dtype=torch.complex64))
    if way == "LocalSteps":
        tern.torch.LocalSteps(module, torch.optim.SGD(module.parameters(), lr=0.1), every=2)
    else:
        getattr(tern.torch, way)(module)


def no_rank():
    del os.environ["TERN_RANK"]
    tern.torch.ddp(programs.conv_net())


def other_weights():
    """Worker 1 begins with other weights, and gets those of worker 0."""
    torch.manual_seed(RANK)
    module = programs.conv_net()
    train(tern.torch.ddp(module), images())
    show("other_weights", module)


def wait_alone():
    """Backward waits for a worker that does not come."""
    torch.manual_seed(1)
    print("waits", flush=True)
    train(tern.torch.ddp(programs.conv_net()), images())


def wait_in_step():
    """Backward waits for the other worker, which says "stays away" and waits for a line of input."""
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    train(net, images(2))
    print("stays away" if RANK == 1 else "waits", flush=True)
    if RANK == 1:
        sys.stdin.readline()
    train(net, images())


def resumed(checkpoint, load, last, loaded_by="all"):
    """Trains to a step that counts from the beginning, from rank 0's first weights or this rank's checkpoint, and saves one.

    loaded_by: rank 0 alone loads module and optimizer, as if DistributedDataParallel gave them to all."""
    torch.manual_seed(1)
    module = local_module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    saved = torch.load(f"{checkpoint}.{load}.{RANK}", weights_only=True) if load != "0" else None
    if saved is not None and loaded_by in ("all", str(RANK)):
        module.load_state_dict(saved["module"])
        optimizer.load_state_dict(saved["optimizer"])
    net = tern.torch.ddp(module, tern_state=saved and saved["tern"])
    assert net.tern.steps == int(load), net.tern.steps
    for step in range(net.tern.steps, int(last)):
        generator = torch.Generator().manual_seed(100 * step + RANK)
        net(torch.randn(4, 8, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    state = {"module": module.state_dict(), "optimizer": optimizer.state_dict(), "tern": net.tern.state_dict()}
    torch.save(state, f"{checkpoint}.{last}.{RANK}")
    show("resumed", module)


def say_when_exchanging(exchange):
    """Prints that the program waits once a backward pass has handed over gradients."""
    while exchange._num_open_steps == 0:
        time.sleep(0.01)
    print("waits", flush=True)


def saves_when_interrupted():
    """Rank 0 is interrupted in the middle of a step, which rank 1 delays, and saves."""
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    train(net, images(2))
    assert net.tern.state_dict()
    if RANK == 1:
        print("stays away", flush=True)
        sys.stdin.readline()
        train(net, images(1))
        return
    threading.Thread(target=say_when_exchanging, args=[net.tern]).start()
    try:
        train(net, images(1))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    try:
        net.tern.state_dict()
    except tern.TernError as error:
        print(f"{error.code}: {error}")


class Drops(torch.nn.Module):
    """Some layers, of which one is not used after three passes."""

    def __init__(self, drops):
        super().__init__()
        self.dropped, self.first = torch.nn.Linear(64, 64), torch.nn.Linear(8, 64)
        self.middle, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 4)
        self.num_left = 3 if drops else 100

    def forward(self, x):
        h = torch.relu(self.first(x))
        self.num_left -= 1
        h = h + self.dropped(h) if self.num_left >= 0 else h
        return self.last(torch.relu(self.middle(h)))


def drops_a_layer():
    """Rank 1 leaves a layer out from the fourth step on, which DistributedDataParallel holds a bucket back for."""
    torch.manual_seed(1)
    net = tern.torch.ddp(Drops(RANK == 1), bucket_cap_mb=0.005)
    for step in range(8):
        net.zero_grad()
        net(torch.randn(4, 8)).square().mean().backward()
        print(f"did {step}", flush=True)


def ignored_parameters():
    """A parameter of each rank's own, and buffers that are not in the module's state."""
    torch.manual_seed(RANK)
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2))
    module[0].register_buffer("table", torch.randn(3), persistent=False)
    own = module[1].weight.sum().item()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, ["1.weight"])
    net = tern.torch.ddp(module)
    for _ in range(3):
        net(torch.randn(4, 8)).square().mean().backward()
    assert module[1].weight.sum().item() == own and len(net.tern.parameters) == 3
    print("own weight:", own)
    print("table:", module[0].table.tolist())


def old_error():
    """Rank 1 has seen an exception that it went on after, as in an interactive console."""
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    sys.last_value = NameError("of long ago") if RANK == 1 else None
    train(net, images(3))
    show("old error", net.module)


def scaled_local_steps():
    """Local steps with a scaler, which skips one of the inner optimizer's."""
    module = local_module()
    local = tern.torch.LocalSteps(module, torch.optim.SGD(module.parameters(), lr=0.1), every=4)
    scale = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number, (x, y) in enumerate(local_samples(RANK)):
        local.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        scale.scale(loss * (float("inf") if number == 5 else 1.0)).backward()
        local.step(scale)
        scale.update()
    assert local.steps == 12 and scale.get_scale() == 512.0, (local.steps, scale.get_scale())
    show("scaled local steps", module)


def going_back(last, held_before):
    """Trains in a loop that can go back, with dropout. Worker 1 waits for a line of input before one step."""
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

    def state():
        return {"module": module.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}

    def load(state):
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])

    net = tern.torch.ddp(module, state_dict=state, load_state_dict=load, goes_back=True)
    if net.tern.steps == 0:
        torch.manual_seed(10 + RANK)  # From here on each worker has random numbers of its own.
    for step in net.tern.loop(int(last)):
        if RANK == 1 and step == int(held_before):
            print(f"before step {step}", flush=True)
            sys.stdin.readline()
        generator = torch.Generator().manual_seed(100 * step + RANK)
        net(torch.randn(4, 8, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    show("going_back", module)


def forked_child():
    """A child that ends as Python programs do leaves the parent's job alone."""
    torch.manual_seed(1)
    net = tern.torch.ddp(programs.conv_net())
    train(net, images(2))
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    train(net, images(2))


def local_module():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 5))


def local_samples(rank):
    generator = torch.Generator("cpu").manual_seed(rank)
    for _ in range(12):
        yield (torch.randn(8, 8, generator=generator, device="cpu").to(programs.DEVICE),
               torch.randint(0, 5, (8,), generator=generator, device="cpu").to(programs.DEVICE))


def local_step(module, optimizer, sample):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(module(sample[0]), sample[1]).backward()
    optimizer.step()


def local_steps(outer):
    """The weights are those that averaging by hand, over both workers' data, gives."""
    def outer_of(module):
        if outer == "diloco":
            return torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5, nesterov=True)
        return None

    module = local_module()
    local = tern.torch.LocalSteps(module, inner=torch.optim.AdamW(module.parameters()), outer=outer_of(module), every=4)
    for sample in local_samples(RANK):
        local_step(module, local, sample)
    local.finish()
    show("local steps", module)

    centre = local_module()
    outer_optimizer = outer_of(centre) or torch.optim.SGD(centre.parameters(), lr=1.0)
    replicas = [local_module() for _ in range(2)]
    optimizers = [torch.optim.AdamW(replica.parameters()) for replica in replicas]
    for number, pair in enumerate(zip(local_samples(0), local_samples(1))):
        for replica, optimizer, sample in zip(replicas, optimizers, pair):
            local_step(replica, optimizer, sample)
        if number % 4 == 3:
            average(centre, replicas, outer_optimizer)
    show("averaging by hand", centre)


def local_first_weights():
    """Workers begin with different weights, some of which are frozen, and different statistics."""
    module = local_module()
    torch.manual_seed(RANK)
    module[0].requires_grad_(False).reset_parameters()
    module[2].reset_parameters()
    module.insert(1, torch.nn.BatchNorm1d(12))
    module[1].running_mean.fill_(RANK)
    module.eval()  # Otherwise the statistics would part.
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    local = tern.torch.LocalSteps(module, optimizer, every=2)
    print(f"statistics: {module[1].running_mean.tolist()}")
    for _, sample in zip(range(4), local_samples(RANK)):
        local_step(module, local, sample)
    show("local first weights", module)


def local_steps_paced():
    """Goes on after the steps that are done. Worker 1 says "before step N" and waits for a line of input."""
    module = local_module()
    outer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    local = tern.torch.LocalSteps(module, torch.optim.SGD(module.parameters(), lr=0.1), outer, every=3)
    for step, sample in list(enumerate(local_samples(RANK)))[local.steps:]:
        if RANK == 1:
            print(f"before step {step}", flush=True)
            sys.stdin.readline()
        local_step(module, local, sample)
    local.finish()
    show("paced local steps", module)


@torch.no_grad()
def average(centre, replicas, outer_optimizer):
    for weights, first, second in zip(centre.parameters(), *(replica.parameters() for replica in replicas)):
        weights.grad = ((weights - first) + (weights - second)) / 2
    outer_optimizer.step()
    for replica in replicas:
        replica.load_state_dict(centre.state_dict())


def described():
    print(tern.torch.describe(programs.Tied()))


def main():
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    name, *words = sys.argv[1:]
    if name in PROGRAMS:
        run(name, tern.torch.ddp)
    else:
        globals()[name](*words)


if __name__ == "__main__":
    main()
