"""An LSTM that hears letters, trained with connectionist temporal classification (CTC).

  TERN_RANK=0 python lstm_ctc.py --speech speech.pt

`make_speech.py` makes the file. Its last tenth is held out, and how much is heard wrong of the texts that are only there is
printed at the end. Without `--speech` the speech is made up: each of 20 sounds has a spectrum of its own, lasts for some
frames, and comes with noise. README.md says how a job is started.
"""
import argparse
import hashlib
import os

import torch
from torch import nn
from torch.nn import functional

import tern_train as tern

ALPHABET = " abcdefghijklmnopqrstuvwxyz"
SOUNDS = 20  # of the speech that is made up
BLANK = 0  # letters and sounds are 1 and so on


class Listener(nn.Module):
    """Spectra (batch x frames x bands) to log-probabilities (frames x batch x blank and symbols)."""

    def __init__(self, bands, symbols, width):
        super().__init__()
        self.lstm = nn.LSTM(bands, width, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * width, 1 + symbols)

    def forward(self, x):
        return self.out(self.lstm(x)[0]).log_softmax(2).transpose(0, 1)


def joined(spectra, texts):
    """A batch: the spectra, their numbers of frames, the texts, and their lengths."""
    frames, lengths = (torch.tensor([len(row) for row in rows]) for rows in (spectra, texts))
    return nn.utils.rnn.pad_sequence(spectra, batch_first=True), frames, nn.utils.rnn.pad_sequence(texts, batch_first=True), lengths


def made_up(count, generator, sounds=8):
    """Spectra, and the sounds that they are of."""
    pure = torch.randn(SOUNDS + 1, 26, generator=torch.Generator().manual_seed(0))
    steps = torch.randint(1, SOUNDS, (count, sounds), generator=generator)
    texts = 1 + steps.cumsum(1) % SOUNDS  # No two neighbours are equal: nobody could hear where one ends.
    frames = torch.randint(2, 6, (count, sounds), generator=generator)
    clean = [pure[text.repeat_interleave(times)] for text, times in zip(texts, frames)]
    return [x + 0.5 * torch.randn(x.shape, generator=generator) for x in clean], list(texts)


def recorded(file):
    """Spectra and texts of a file of make_speech.py."""
    content = torch.load(file, weights_only=True)
    texts = [torch.tensor([1 + ALPHABET.index(letter) for letter in text]) for text in content["texts"]]
    return [spectrum.float() for spectrum in content["spectra"]], texts


def held_out(texts, learned):
    """The numbers of the utterances behind the first ones whose texts are not among those of the first ones."""
    known = {tuple(text.tolist()) for text in texts[:learned]}
    return [i for i in range(learned, len(texts)) if tuple(texts[i].tolist()) not in known]


def batches(spectra, texts, batch, seed):
    """Endless batches of random utterances."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = torch.randint(len(texts), (batch,), generator=generator).tolist()
        yield joined([spectra[i] for i in chosen], [texts[i] for i in chosen])


def made_up_batches(batch, seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield joined(*made_up(batch, generator))


def digest(module):
    """SHA-256 of all weights, which are the same in all workers."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


def train(net, data, options):
    optimizer = torch.optim.Adam(net.parameters(), lr=options.learning_rate)
    for step, (x, frames, texts, lengths) in zip(range(1, options.steps + 1), data):
        loss = functional.ctc_loss(net(x), texts, frames, lengths, BLANK)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        if step % options.print_hash_every == 0 or step == options.steps:
            print(f"step {step}  loss {loss.item():.4f}  weights {digest(net)}", flush=True)


def differences(heard, text):
    """The least number of insertions, deletions and replacements that make one text of the other."""
    row = list(range(len(text) + 1))
    for i, symbol in enumerate(heard, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(text, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (symbol != other))
    return row[-1]


@torch.no_grad()
def error_rate(model, spectra, texts):
    """The part of the symbols that is heard wrong: of each frame the likeliest, without repeats and blanks."""
    wrong = 0
    for spectrum, text in zip(spectra, texts):
        likeliest = model(spectrum[None])[:, 0].argmax(1).unique_consecutive()
        wrong += differences(likeliest[likeliest != BLANK].tolist(), text.tolist())
    return wrong / sum(map(len, texts))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--speech", metavar="FILE", help="of make_speech.py; else the speech is made up")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16, help="utterances of one worker in a step")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--print_hash_every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    rank = tern.torch.rank_of_environment()
    if options.speech:
        spectra, texts = recorded(options.speech)
        learned = len(texts) * 9 // 10
        data = batches(spectra[:learned], texts[:learned], options.batch, seed=rank)
        others = held_out(texts, learned)
        heard, symbols = ([spectra[i] for i in others], [texts[i] for i in others]), len(ALPHABET)
    else:
        data = made_up_batches(options.batch, seed=rank)
        heard, symbols = made_up(200, torch.Generator().manual_seed(-1)), SOUNDS
    model = Listener(heard[0][0].shape[1], symbols, options.width)
    net = tern.torch.ddp(model, job=options.job)
    train(net, data, options)
    if rank == 0:
        print(f"heard wrong {error_rate(model, *heard):.4f} of the symbols in {len(heard[0])} other utterances")


if __name__ == "__main__":
    main()
