"""PyTorch Lightning's own DDP strategy, with Tern in place of its all-reduce.

  python lightning_ddp.py

Lightning starts two workers on this machine, and makes a process group, over which its other messages go. The model
guesses the next character of a text from the last eight. README.md says how a job is started.
"""
import argparse
import hashlib
import os
import pathlib

import lightning
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tern_train as tern

CONTEXT = 8


class Guesser(lightning.LightningModule):
    """Eight characters to the logits of the next one."""

    def __init__(self, alphabet, options):
        super().__init__()
        self.options = options
        width = options.width
        self.layers = nn.Sequential(nn.Embedding(alphabet, width), nn.Flatten(), nn.Linear(CONTEXT * width, 4 * width), nn.Tanh(),
                                    nn.Linear(4 * width, alphabet))

    def on_train_start(self):
        exchange = tern.torch.Exchange(self, job=self.options.job)
        self.trainer.model.register_comm_hook(exchange, tern.torch.hook)

    def training_step(self, batch):
        x, y = batch
        return functional.cross_entropy(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)

    def on_train_batch_end(self, outputs, batch, index):
        step = self.global_step
        if step % self.options.print_hash_every == 0 or step == self.options.steps:
            print(f"step {step}  loss {outputs['loss'].item():.4f}  weights {digest(self)}", flush=True)


def pieces_of(characters):
    """All pieces of the text, and the characters behind them."""
    alphabet = sorted(set(characters))
    text = torch.tensor([alphabet.index(character) for character in characters])
    pieces = text.unfold(0, CONTEXT + 1, 1)
    return TensorDataset(pieces[:, :-1], pieces[:, -1]), len(alphabet)


def digest(module):
    """SHA-256 of all weights, which are the same in all workers."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


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
    lightning.seed_everything(1)
    pieces, alphabet = pieces_of(options.text.read_text())
    trainer = lightning.Trainer(
        accelerator="cpu", devices=options.workers, strategy="ddp", max_steps=options.steps, max_epochs=-1,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    # Lightning gives each worker its part of the pieces.
    trainer.fit(Guesser(alphabet, options), DataLoader(pieces, options.batch, shuffle=True))


if __name__ == "__main__":
    main()
