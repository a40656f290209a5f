#!/usr/bin/env python3
"""Compares the weights of ResNet-18 (python/examples/resnet18_cifar10.py) that was trained over Tern with those that were
trained over PyTorch's own DistributedDataParallel on gloo. All processes run on this machine's CPU, with one thread each.

  any_model_equal.py BUILD_FOLDER CIFAR_FOLDER [--two 50] [--four 20] [--codes 100] [--batch 8] [--width 64]
    [--learning_rate 0.02]

BUILD_FOLDER has bin/tern_server and lib/libtern.so; `installed`: the wheel that this Python has. CIFAR_FOLDER has CIFAR-10's binary files. The Python that runs this
needs PyTorch and NumPy. Three parts, each for the steps that its flag says; 0 leaves it out:

  two    2 processes, codec fp32, 1 and 2 servers: the digests of the weights against gloo's
  four   4 processes, codec fp32, 1 and 2 servers: the relative norm of the difference to gloo after 1 step and after all,
         beside that of gloo whose ranks are permuted
  codes  2 and 4 processes, codec ternary_ans, 1 and 2 servers: whether all ranks have the same digest every 50 steps
"""
import argparse
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parent / "python"
DEADLINE_S = 3600
PERMUTATIONS = ("1032", "2301", "3120")


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def job_file(folder, codec, workers, servers):
    addresses = ", ".join(f'{{address: "127.0.0.1:{port}"}}' for port in free_ports(servers))
    path = folder / "job.yaml"
    path.write_text(f"""name: any_model_equal
output_dir: {folder}/out
servers: [{addresses}]
workers: {{count: {workers}}}
train: {{compute: client}}
exchange: {{codec: {codec}}}
faults: {{start_timeout_s: 300}}
""")
    return path


def is_installed(options):
    return str(options.build) == "installed"


def server_program(options):
    return pathlib.Path(sys.executable).parent / "tern_server" if is_installed(options) else options.build / "bin/tern_server"


class Run:
    """A training. digests: for each rank, the digest by step. vector(step): rank 0's weights after the step, if saved."""

    def __init__(self, options, folder, workers, steps, codec=None, servers=0, ranks="0123", saved=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        processes = []
        words = ["--ranks", ranks, "--steps", steps, "--print_hash_every", options.print_hash_every,
                 "--save", ",".join(map(str, saved))]
        if codec:
            job = job_file(self.folder, codec, workers, servers)
            words += ["--job", job]
            processes += [self.start(f"server{shard}", server_program(options), "--job", job, "--rank", shard)
                          for shard in range(servers)]
        environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PYTHON / "examples")}
        if not is_installed(options):
            environment |= {"TERN_LIBRARY": str(options.build / "lib/libtern.so"), "PYTHONPATH": f"{PYTHON}:{PYTHON / 'examples'}"}
        words += ["--batch", options.batch, "--width", options.width, "--learning_rate", options.learning_rate,
                  "--world", workers, "--folder", self.folder]
        processes += [self.start(f"rank{rank}", sys.executable, "-B", __file__, options.build, options.data, *words,
                                 TERN_RANK=str(rank), **environment) for rank in range(workers)]
        self.await_all(processes)
        self.digests = [dict(re.findall(r"^step (\d+)  .*weights (\w{64})$", self.text(f"rank{rank}"), re.MULTILINE))
                        for rank in range(workers)]

    def log(self, name):
        return self.folder / f"{name}.log"

    def text(self, name):
        return self.log(name).read_text()

    def start(self, name, *words, **environment):
        with open(self.log(name), "w") as log:
            return subprocess.Popen([str(word) for word in words], stdout=log, stderr=subprocess.STDOUT,
                                    env={**os.environ, **environment})

    def await_all(self, processes):
        try:
            codes = [process.wait(DEADLINE_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any(codes):
            logs = "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in self.folder.glob("*.log"))
            raise RuntimeError(f"exit codes {codes}\n{logs}")

    def ranks_agree(self):
        return all(digests == self.digests[0] for digests in self.digests) and bool(self.digests[0])

    def vector(self, step):
        import torch
        return torch.load(self.folder / f"weights_{step}.pt").double()

    def distance(self, other, step):
        """The relative norm of the difference to another run."""
        weights, others = self.vector(step), other.vector(step)
        return ((weights - others).norm() / others.norm()).item()


def worker(options):
    import resnet18_cifar10 as example
    import torch
    import torch.distributed as dist

    rank = int(os.environ["TERN_RANK"])
    torch.manual_seed(1)
    model = example.resnet18(options.width)
    if options.job:
        import tern_train as tern
        net = tern.torch.ddp(model, job=options.job)
    else:
        meeting = f"file://{options.folder}/meeting"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=options.world)
        net = torch.nn.parallel.DistributedDataParallel(model)
    saved = [int(step) for step in options.save.split(",") if step and rank == 0]

    def batches():
        images, labels = example.cifar10(sorted(options.data.glob("data_batch_*.bin")))
        data = example.batches(images, labels, options.batch, seed=int(options.ranks[rank]))
        for num_done, batch in enumerate(data):
            if num_done in saved:
                save(num_done)
            yield batch

    def save(step):
        weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.save(weights, options.folder / f"weights_{step}.pt")

    example.train(net, batches(), options)
    if options.steps in saved:
        save(options.steps)


def two(options, folder):
    gloo = Run(options, folder, 2, options.two)
    for servers in (1, 2):
        tern = Run(options, folder, 2, options.two, "fp32", servers)
        print(f"2 processes, fp32, {servers} servers: ranks agree: {tern.ranks_agree()}; "
              f"equal to gloo after steps {', '.join(gloo.digests[0])}: {tern.digests == gloo.digests}")
    print(f"  gloo's digest after step {options.two}: {gloo.digests[0][str(options.two)]}", flush=True)


def four(options, folder):
    steps = (1, options.four)
    gloo = Run(options, folder, 4, options.four, saved=steps)
    for ranks in PERMUTATIONS:
        other = Run(options, folder, 4, options.four, ranks=ranks, saved=steps)
        print(f"4 processes, gloo with ranks {ranks}: " + distances(other, gloo, steps), flush=True)
    for servers in (1, 2):
        tern = Run(options, folder, 4, options.four, "fp32", servers, saved=steps)
        print(f"4 processes, fp32, {servers} servers: ranks agree: {tern.ranks_agree()}; "
              f"{distances(tern, gloo, steps)}", flush=True)


def distances(run, gloo, steps):
    return "; ".join(f"difference to gloo after {step} steps: {run.distance(gloo, step):.3e}" for step in steps)


def codes(options, folder):
    for workers, servers in ((2, 1), (2, 2), (4, 1), (4, 2)):
        run = Run(options, folder, workers, options.codes, "ternary_ans", servers)
        print(f"{workers} processes, ternary_ans, {servers} servers: ranks agree after steps {', '.join(run.digests[0])}: "
              f"{run.ranks_agree()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text) if text == "installed" else pathlib.Path(text).resolve())
    parser.add_argument("data", type=lambda text: pathlib.Path(text).resolve())
    numbers = {"two": 50, "four": 20, "codes": 100, "batch": 8, "width": 64, "print_hash_every": 50}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--learning_rate", type=float, default=0.02)
    hidden = {"job": str, "ranks": str, "save": str, "folder": pathlib.Path, "steps": int, "world": int}
    for name, kind in hidden.items():  # for the processes that train
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        worker(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        for part in (two, four, codes):
            if getattr(options, part.__name__):
                part(options, folder)


if __name__ == "__main__":
    main()
