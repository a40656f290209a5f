"""A small GPT that learns a text by its characters, and writes some at the end.

  TERN_RANK=0 python small_gpt.py --text kjv.txt

Without `--text` it learns this script. A text of 4 MB, the King James Bible, on Debian:

  apt-get install bible-kjv
  bible -f Gen1:1-Rev22:21 | cut -d" " -f2- > kjv.txt

The last tenth of the text is held out, and its loss printed at the end. README.md says how a job is started.
"""
import argparse
import hashlib
import os
import pathlib

import torch
from torch import nn
from torch.nn import functional

import tern_train as tern


class Block(nn.Module):
    """Attention to earlier characters, then two layers for each character."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.queries_keys_values(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.layers(self.norm2(x))


class Gpt(nn.Module):
    """Characters (batch x length) to the logits of the next one (batch x length x alphabet)."""

    def __init__(self, alphabet, context, width, layers, heads):
        super().__init__()
        self.context = context
        self.characters, self.positions = nn.Embedding(alphabet, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width))
        self.out = nn.Linear(width, alphabet, bias=False)
        for embedding in (self.characters, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)
        self.out.weight = self.characters.weight

    def forward(self, x):
        return self.out(self.blocks(self.characters(x) + self.positions.weight[: x.shape[1]]))


def batches(text, batch, context, seed):
    """Endless batches of pieces of the text, and of the same pieces one character later."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        begins = torch.randint(len(text) - context, (batch,), generator=generator)
        pieces = torch.stack([text[begin : begin + context + 1] for begin in begins.tolist()])
        yield pieces[:, :-1], pieces[:, 1:]


def digest(module):
    """SHA-256 of all weights, which are the same in all workers."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


def train(net, data, options):
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.learning_rate)
    for step, (x, y) in zip(range(1, options.steps + 1), data):
        loss = functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if step % options.print_hash_every == 0 or step == options.steps:
            print(f"step {step}  loss {loss.item():.4f}  weights {digest(net)}", flush=True)


@torch.no_grad()
def held_out_loss(model, text, pieces=500):
    """The mean loss of a character of a text that the model has not learned, in pieces that lie evenly over it."""
    begins = torch.linspace(0, len(text) - model.context - 1, pieces).long()
    x = torch.stack([text[begin : begin + model.context + 1] for begin in begins.tolist()])
    losses = [functional.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten()) for part in x.split(50)]
    return torch.stack(losses).mean().item()


@torch.no_grad()
def write(model, alphabet, count):
    """A text of the model's own, which goes on from the first character of the alphabet."""
    written = torch.zeros(1, 1, dtype=torch.long)
    for _ in range(count):
        logits = model(written[:, -model.context :])[0, -1]
        written = torch.cat([written, torch.multinomial(logits.softmax(0), 1).view(1, 1)], 1)
    return "".join(alphabet[number] for number in written[0].tolist())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__), help="the text that it learns")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16, help="pieces of text of one worker in a step")
    parser.add_argument("--context", type=int, default=64, help="characters of a piece")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--print_hash_every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--write", type=int, default=300, metavar="COUNT", help="characters that rank 0 writes at the end")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    characters = options.text.read_text()
    alphabet = sorted(set(characters))
    numbers = {character: number for number, character in enumerate(alphabet)}
    text = torch.tensor([numbers[character] for character in characters])
    learned, held_out = text.tensor_split([len(text) * 9 // 10])
    model = Gpt(len(alphabet), options.context, options.width, options.layers, options.heads)
    rank = tern.torch.rank_of_environment()
    net = tern.torch.ddp(model, job=options.job)
    train(net, batches(learned, options.batch, options.context, seed=rank), options)
    if rank == 0:
        print(f"loss of the held-out text {held_out_loss(model, held_out):.4f}")
        print(write(model, alphabet, options.write))


if __name__ == "__main__":
    main()
