"""Draws the results of cifar10.py: training loss, test loss and accuracy by epoch, one picture per network.

  curves.py CURVES.json FOLDER     writes FOLDER/NET.svg
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tern"  # makes the file deterministic
import matplotlib.pyplot as plt  # noqa: E402

PANELS = (("train_loss", "training loss"), ("test_loss", "test loss"), ("accuracy", "test accuracy"))
COLORS = {"fp32": "tab:blue", "ternary": "tab:orange", "pytorch": "tab:gray"}


def draw(net, arms, epoch_steps, file):
    figure, axes = plt.subplots(1, len(PANELS), figsize=(12, 3.6), constrained_layout=True)
    for axis, (key, title) in zip(axes, PANELS):
        for arm, curves in arms.items():
            for seed, curve in enumerate(curves):
                axis.plot([point["step"] / epoch_steps for point in curve], [point[key] for point in curve],
                          color=COLORS[arm], linewidth=1.2, alpha=0.8, label=arm if seed == 0 else None)
        axis.set_title(title)
        axis.set_xlabel("epoch")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.suptitle(f"{net} on CIFAR-10, a line a seed")
    figure.savefig(file, metadata={"Date": None})
    print(f"written: {file}")


def main():
    found = json.loads(pathlib.Path(sys.argv[1]).read_text())
    for net, arms in found["nets"].items():
        draw(net, arms, found["epoch_steps"], pathlib.Path(sys.argv[2]) / f"{net}.svg")


if __name__ == "__main__":
    main()
