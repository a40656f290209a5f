"""Ray Train, with Tern in place of its all-reduce.

  python ray_train.py

Ray starts two workers, which run the function `train`. The same function is a worker where something else starts this
script and gives it a rank: `torchrun --nproc_per_node=2 ray_train.py`. The model guesses the next character of a text from
the last eight. README.md says how a job is started.
"""
import argparse
import hashlib
import os
import pathlib

import torch
from torch import nn
from torch.nn import functional

import tern_train as tern

CONTEXT = 8


def network(alphabet, width):
    return nn.Sequential(nn.Embedding(alphabet, width), nn.Flatten(), nn.Linear(CONTEXT * width, 4 * width), nn.Tanh(),
                         nn.Linear(4 * width, alphabet))


def batches(text, batch, seed):
    """Endless batches of pieces of the text, and the characters behind them."""
    generator = torch.Generator().manual_seed(seed)
    pieces = text.unfold(0, CONTEXT + 1, 1)
    while True:
        chosen = pieces[torch.randint(len(pieces), (batch,), generator=generator)]
        yield chosen[:, :-1], chosen[:, -1]


def digest(module):
    """SHA-256 of all weights, which are the same in all workers."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


def train(config):
    """What a worker does. Ray ends its process when this returns, so the function itself says to Tern that it has finished."""
    torch.manual_seed(1)
    alphabet = sorted(set(config["characters"]))
    text = torch.tensor([alphabet.index(character) for character in config["characters"]])
    net = tern.torch.ddp(network(len(alphabet), config["width"]), job=config["job"])
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    data = batches(text, config["batch"], seed=int(os.environ["RANK"]))
    for step, (x, y) in zip(range(1, config["steps"] + 1), data):
        loss = functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % config["print_hash_every"] == 0 or step == config["steps"]:
            print(f"step {step}  loss {loss.item():.4f}  weights {digest(net)}", flush=True)
    net.tern.finish()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__), help="the text that it learns")
    parser.add_argument("--workers", type=int, default=2, help="as many as the job has")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=32, help="pieces of text of one worker in a step")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--print_hash_every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


def main():
    options = arguments()
    # Ray's workers have other current folders.
    config = {**vars(options), "characters": options.text.read_text(), "job": os.path.abspath(options.job)}
    if "RANK" in os.environ:
        train(config)
        return
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer
    TorchTrainer(train, train_loop_config=config, scaling_config=ScalingConfig(num_workers=options.workers)).fit()


if __name__ == "__main__":
    main()
