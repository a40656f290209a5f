"""The targets of all benchmarks in one table, and verdicts on measured values. Benchmarks use the keys of this table;
scripts/bench.sh collects them. gpu_targets.py has the targets on a GPU."""
import dataclasses
import json
import pathlib


@dataclasses.dataclass
class Target:
    what: str
    bar: float | None = None  # the required value
    goal: float | None = None  # the value to aim for beyond the bar
    limit: float | None = None  # the theoretical limit
    at_most: bool = False


def at_most(what, bar, goal=None, limit=None):
    return Target(what, bar, goal, limit, True)


TARGETS = {
    "up_ternary": Target("up-link bytes, own fp32 / ternary, headers and scalers included", 22, 24.3, 26.3),
    "up_ternary_ans": Target("up-link bytes, own fp32 / ternary_ans", 24.5, 25, 26.3),
    "down_planes_4": Target("down-link bytes, N = 4, fixed planes", 7.9, 8, 8),
    "down_planes_8": Target("down-link bytes, N = 8, fixed planes", 6.3, 6.4, 6.4),
    "down_ans_4": Target("down-link bytes, N = 4, entropy-coded", 12.5, 13.5, 14.4),
    "down_ans_8": Target("down-link bytes, N = 8, entropy-coded", 10, 11, 11.8),
    "ternarize_vs_floor": Target("ternarizing / its two passes without arithmetic, one core", 0.6, 0.85, 1),
    "ternarize_vs_torch": Target("ternarizing / the same steps as PyTorch operations, one core", 15),
    "sum_2bit_vs_fp32": Target("server's sum, N = 8, ternary_2bit / one-pass fp32 sum", 12, limit=13.7),
    "sum_2bit_vs_recode": Target("server's sum, N = 8, ternary_2bit / decode, add, encode", 35, 50, 52.7),
    "sum_ternary_vs_fp32": Target("server's sum, N = 8, ternary / one-pass fp32 sum", 6, limit=13.7),
    "sum_ternary_vs_recode": Target("server's sum, N = 8, ternary / decode, add, encode", 18, 50, 52.7),
    "decode_vs_floor": Target("decode with momentum / its pass without arithmetic", 0.8, 0.85, 1),
    "decode_vs_torch": Target("decode with momentum / decode, then PyTorch's SGD", 1.7, limit=1.9),
    "goodput_100": Target("fp32 goodput / iperf3, 100 Mbit/s, the worse direction", 0.95, 0.97, 1),
    "goodput_1000": Target("fp32 goodput / iperf3, 1 Gbit/s, the worse direction", 0.95, 0.97, 1),
    "round_100": Target("61.1 M round, 100 Mbit/s, own fp32 / best ternary wire", 10, 16, 18.6),
    "round_1000": Target("61.1 M round, 1 Gbit/s, own fp32 / best ternary wire", 8, 16, 18.6),
    "gloo_100": Target("61.1 M round, 100 Mbit/s, PyTorch gloo all-reduce / best ternary wire", 5, 9, 9.3),
    "gloo_1000": Target("61.1 M round, 1 Gbit/s, PyTorch gloo all-reduce / best ternary wire", 4, 9, 9.3),
    "control_100": at_most("longest control round trip meanwhile, 100 Mbit/s, ms", 100),
    "control_1000": at_most("longest control round trip meanwhile, 1 Gbit/s, ms", 100),
    "keys_100_fp32": at_most("a round with keys / without, 61 M parameters, fp32, 100 Mbit/s", 1.03),
    "keys_100_ternary_ans": at_most("the same, ternary_ans", 1.03),
    "keys_1000_fp32": at_most("the same, fp32, 1 Gbit/s", 1.10),
    "keys_1000_ternary_ans": at_most("the same, ternary_ans, 1 Gbit/s", 1.25),
    "server_cpu": at_most("server's CPU / a ZeroMQ echo's of the same bytes", 1.25, 1.15, 1),
    "odsgd_max": at_most("odsgd step / max(Tc, Tw), the worst of Tw/Tc = 0.5, 1, 2", 1.08, 1.03, 1),
    "odsgd_speedup": Target("odsgd / ssgd without overlap at Tw = Tc", 1.8, limit=2),
    "asgd_straggler": Target("asgd, one of 4 workers 3x slower / sum of the own rates", 0.95, 0.98, 1),
    "step_lenet": Target("training step, lenet, PyTorch 1.13.1 / Tern", 2.5, 4),
    "step_resnet20": Target("training step, resnet20, PyTorch 1.13.1 / Tern", 1.8, 2.5),
    "step_mobilenet": Target("training step, mobilenet, PyTorch 1.13.1 / Tern", 1.8, 2.5),
    "step_resnet50": Target("training step, resnet50, PyTorch 1.13.1 / Tern", 1.4, 2),
    "step_alexnet": Target("training step, alexnet, PyTorch 1.13.1 / Tern", 1.2, 1.5),
    "step_vgg16": Target("training step, vgg16, PyTorch 1.13.1 / Tern", 1.2, 1.5),
    "step_newest_lenet": Target("training step, lenet, newest PyTorch / Tern", 1.5),
    "step_newest_resnet20": Target("training step, resnet20, newest PyTorch / Tern", 1.5),
    "step_newest_mobilenet": Target("training step, mobilenet, newest PyTorch / Tern", 1),
    "step_newest_resnet50": Target("training step, resnet50, newest PyTorch / Tern", 1),
    "step_newest_alexnet": Target("training step, alexnet, newest PyTorch / Tern", 1),
    "step_newest_vgg16": Target("training step, vgg16, newest PyTorch / Tern", 1),
    "far_round": at_most("a round of LeNet, ternary_ans, 200 ms a round trip / the arithmetic of trips and bytes", 1.15),
    "far_goodput": Target("fp32 goodput / the link, 20 M parameters, 100 Mbit/s, 200 ms a round trip", 0.8, limit=1),
    "far_bytes": at_most("bytes pushed there / bytes needed", 1.01),
    "simulator": at_most("100,000 schedules of the simulator on two cores, s", 60),
    "attack_memory": at_most("a server's memory under the worst of all attacks (attacks.py), MiB more", 16),
    "attack_log": at_most("its log under the worst of them, B/s", 2000),
    "attack_rate": Target("rounds a second under the worst of them / beside a spinning process", 0.9),
    "attack_outcome": Target("exit codes and weights are those without attacks"),
    "predict_error": at_most("tern forecast's largest error, %", 15),
}


def verdict(target, value):
    def meets(asked):
        return value <= asked if target.at_most else value >= asked

    if target.bar is not None and not meets(target.bar):
        return "MISSED"
    if target.goal is None:
        return "met" if target.bar is not None else "measured"
    return "beyond the goal" if meets(target.goal) else "met" if target.bar is not None else "below the goal"


def number(value):
    return "" if value is None else f"{value:.3g}"


class Figures:
    """Measured values with their samples, by the keys of a table of targets."""

    def __init__(self, targets=None):
        self.targets = TARGETS if targets is None else targets
        self.rows = {}

    def add(self, key, value, samples=(), note=""):
        self._put(key, value, verdict(self.targets[key], value), samples, note)

    def add_missing(self, key, why):
        self._put(key, None, "not measured", (), why)

    def add_outcome(self, key, passed, note=""):
        """Adds a result without a number."""
        self._put(key, None, "passed" if passed else "FAILED", (), note)

    def _put(self, key, value, word, samples, note):
        target = self.targets[key]
        self.rows[key] = {"what": target.what, "value": value, "bar": target.bar, "goal": target.goal,
                          "limit": target.limit, "at_most": target.at_most, "verdict": word,
                          "samples": list(samples), "note": note}

    def table(self):
        lines = ["| target | asked | goal | limit | measured | verdict | note |", "|---|---|---|---|---|---|---|"]
        for row in self.rows.values():
            sign = "<= " if row["at_most"] else ">= "
            note = " ".join(row["note"].split()).replace("|", "/")
            asked, goal = (sign + number(row[which]) if row[which] is not None else "" for which in ("bar", "goal"))
            lines.append(f"| {row['what']} | {asked} | {goal} | {number(row['limit'])} | "
                         f"{number(row['value'])} | {row['verdict']} | {note} |")
        return "\n".join(lines)

    def missed(self):
        return [key for key, row in self.rows.items() if row["verdict"] in ("MISSED", "FAILED")]

    def write(self, path):
        if path:
            pathlib.Path(path).write_text(json.dumps(self.rows, indent=1) + "\n")
