"""DiLoCo (Douillard et al., 2023): workers train on their own for many steps, then exchange how their weights changed.

  TERN_RANK=0 python diloco.py --every 50

The model guesses the next character of a text from the last eight. README.md says how a job is started.
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
    """SHA-256 of all weights. They are the same in all workers after an exchange, and not between."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


def train(model, optimizer, data, options):
    for step, (x, y) in zip(range(1, options.steps + 1), data):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % options.every == 0:
            print(f"step {step}  loss {loss.item():.4f}  weights {digest(model)}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "local_job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__), help="the text that it learns")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=50, metavar="STEPS", help="steps between two exchanges")
    parser.add_argument("--batch", type=int, default=32, help="pieces of text of one worker in a step")
    parser.add_argument("--width", type=int, default=32)
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    characters = options.text.read_text()
    alphabet = sorted(set(characters))
    text = torch.tensor([alphabet.index(character) for character in characters])
    model = network(len(alphabet), options.width)
    inner = torch.optim.AdamW(model.parameters(), lr=2e-3)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    rank = tern.torch.rank_of_environment()
    optimizer = tern.torch.LocalSteps(model, inner, outer, every=options.every, job=options.job)
    train(model, optimizer, batches(text, options.batch, seed=rank), options)


if __name__ == "__main__":
    main()
