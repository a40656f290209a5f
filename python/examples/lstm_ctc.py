"""An LSTM that hears phonemes, trained with connectionist temporal classification (CTC).

  TERN_RANK=0 python lstm_ctc.py

The speech is made up: each phoneme has a spectrum of its own, lasts for some frames, and comes with noise. README.md says
how a job is started.
"""
import argparse
import hashlib
import os

import torch
from torch import nn
from torch.nn import functional

import tern_train as tern

PHONEMES = 20
BANDS = 26  # of the spectrum
BLANK = 0  # the phonemes are 1 to PHONEMES


class Listener(nn.Module):
    """Spectra (batch x frames x bands) to log-probabilities (frames x batch x blank and phonemes)."""

    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(BANDS, width, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * width, PHONEMES + 1)

    def forward(self, x):
        return self.out(self.lstm(x)[0]).log_softmax(2).transpose(0, 1)


def utterances(batch, seed, phonemes=8):
    """Endless batches of spectra, their numbers of frames, and the phonemes that they are of."""
    spectra = torch.randn(PHONEMES + 1, BANDS, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    while True:
        steps = torch.randint(1, PHONEMES, (batch, phonemes), generator=generator)
        spoken = 1 + steps.cumsum(1) % PHONEMES  # No two neighbours are equal: nobody could hear where one ends.
        frames = torch.randint(2, 6, (batch, phonemes), generator=generator)
        heard = [spectra[word.repeat_interleave(times)] for word, times in zip(spoken, frames)]
        x = nn.utils.rnn.pad_sequence(heard, batch_first=True)
        yield x + 0.5 * torch.randn(x.shape, generator=generator), frames.sum(1), spoken


def digest(module):
    """SHA-256 of all weights, which are the same in all workers."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


def train(net, data, options):
    optimizer = torch.optim.Adam(net.parameters(), lr=options.learning_rate)
    for step, (x, frames, spoken) in zip(range(1, options.steps + 1), data):
        lengths = torch.full((len(spoken),), spoken.shape[1])
        loss = functional.ctc_loss(net(x), spoken, frames, lengths, BLANK)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        if step % options.print_hash_every == 0 or step == options.steps:
            print(f"step {step}  loss {loss.item():.4f}  weights {digest(net)}", flush=True)


@torch.no_grad()
def recognized(model, x, frames, spoken):
    """The part of the utterances that are right: of each frame the likeliest, without repeats and blanks."""
    right = 0
    for likeliest, count, word in zip(model(x).argmax(2).T, frames, spoken):
        heard = likeliest[:count].unique_consecutive()
        right += torch.equal(heard[heard != BLANK], word)
    return right / len(spoken)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16, help="utterances of one worker in a step")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--print_hash_every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    model = Listener(options.width)
    rank = tern.torch.rank_of_environment()
    net = tern.torch.ddp(model, job=options.job)
    train(net, utterances(options.batch, seed=rank), options)
    if rank == 0:
        print(f"recognized {recognized(model, *next(utterances(200, seed=-1))):.3f} of 200 utterances")


if __name__ == "__main__":
    main()
