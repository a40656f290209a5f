"""Tables of a paired experiment: the same job, seed by seed, with codec fp32 and with codec ternary."""
import json
import statistics

import student

CODECS = ("fp32", "ternary")
POINTS = 100  # gaps are in points: hundredths of the accuracy


def table(head, rows):
    """Returns a Markdown table whose columns are also aligned as plain text."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def mean_text(values, digits, scale=1.0):
    """Returns the mean and the standard deviation as text."""
    if not values:
        return "-"
    deviation = student.deviation(values)
    text = f"{statistics.fmean(values) * scale:.{digits}f}"
    return text if deviation is None else f"{text} ± {deviation * scale:.{digits}f}"


class Case:
    """The results of one case: {(seed, codec): summary}."""

    def __init__(self, name, wanted, optional, results):
        self.name, self.wanted, self.optional, self.results = name, wanted, optional, results
        self.pairs = [(results[seed, "fp32"], results[seed, "ternary"])
                      for seed in sorted({seed for seed, _ in results})
                      if all((seed, codec) in results for codec in CODECS)]
        self.gaps = [(a["accuracy"] - b["accuracy"]) * POINTS for a, b in self.pairs]
        self.interval = student.interval(self.gaps)

    def of(self, codec, key):
        """Returns one value of all paired seeds."""
        return [pair[CODECS.index(codec)][key] for pair in self.pairs]

    def ternary(self, key):
        return self.of("ternary", key)

    def agree(self):
        return all(result["replicas_agree"] for result in self.results.values())

    def complete(self):
        return len(self.pairs) >= self.wanted


# Requirements for a case: {name: (text, value of a Case, whether the bar is a maximum)}.
BARS = {
    "accuracy": ("mean ternary accuracy at least {:.3f}", lambda c: statistics.fmean(c.ternary("accuracy")), False),
    "gap": ("mean gap at most {:.2f} points", lambda c: statistics.fmean(c.gaps), True),
    "gap_upper": ("upper 95 % bound of the mean gap at most {:.2f} points", lambda c: c.interval[2], True),
    "train_s": ("slowest training with ternary at most {:.0f} s", lambda c: max(c.ternary("train_s")), True),
    "up_ratio": ("up-link with ternary at least {:.1f}x smaller", lambda c: min(c.ternary("up_ratio")), False),
    "down_ratio": ("down-link with ternary at least {:.1f}x smaller", lambda c: min(c.ternary("down_ratio")), False),
}


def judge(case, bars):
    """Returns rows of (case, requirement, measured value, verdict), and whether any requirement is missed."""
    rows, missed = [], False
    for name, bar in bars:
        says, figure, at_most = BARS[name]
        if not case.complete():
            rows.append((case.name, says.format(bar), "-", f"not yet: {len(case.pairs)} of {case.wanted} seeds"))
            continue
        value = figure(case)
        room = bar - value if at_most else value - bar
        missed |= room < 0
        verdict = f"met, by {room:.4g}" if room >= 0 else f"NOT met, by {-room:.4g}"
        rows.append((case.name, says.format(bar), f"{value:.4g}", verdict))
    agree = case.agree()
    rows.append((case.name, "all replicas' hashes agree", *(("agree", "met") if agree else ("DIFFER", "NOT met"))))
    return rows, missed or not agree


def seed_rows(case):
    for seed in sorted({seed for seed, _ in case.results}):
        both = [case.results.get((seed, codec)) for codec in CODECS]

        def cell(index, key, form, scale=1.0):
            return format(both[index][key] * scale, form) if both[index] and key in both[index] else "-"

        gap = f"{(both[0]['accuracy'] - both[1]['accuracy']) * POINTS:+.2f}" if all(both) else "-"
        yield (case.name, seed, cell(0, "accuracy", ".2f", 100), cell(1, "accuracy", ".2f", 100), gap,
               cell(0, "train_loss", ".4f"), cell(1, "train_loss", ".4f"),
               cell(0, "train_s", ".1f"), cell(1, "train_s", ".1f"),
               cell(1, "up_ratio", ".2f"), cell(1, "down_ratio", ".2f"),
               both[1]["parameters_hash"] if both[1] else "-",
               "agree" if all(one["replicas_agree"] for one in both if one) else "DIFFER")


def mean_row(case):
    bounds = ("-", "-")
    if case.interval:
        low, high, upper = case.interval
        bounds = (f"{low:+.3f} to {high:+.3f}", f"{upper:+.3f}")
    return (case.name, f"{len(case.pairs)} of {case.wanted}",
            mean_text(case.of("fp32", "accuracy"), 3, 100), mean_text(case.of("ternary", "accuracy"), 3, 100),
            mean_text(case.gaps, 3), *bounds,
            mean_text(case.of("fp32", "train_loss"), 4), mean_text(case.of("ternary", "train_loss"), 4),
            mean_text(case.of("fp32", "train_s"), 1), mean_text(case.of("ternary", "train_s"), 1))


LEGEND = """Accuracy in % of all test images; gap = fp32 - ternary of the same seed, in points; ± is the deviation
over the seeds. Loss: mean over the training images since the last comparison of hashes. s: seconds of
training. up, down: how many times fewer bytes ternary sends than fp32."""


def make(title, cases, bars, short):
    """Returns (the report as Markdown, whether a bar is missed). `short`: the runs are shorter than the bars require."""
    shown = [case for case in cases if case.results]
    parts = [f"# {title}", LEGEND]
    if not shown:
        return "\n\n".join([*parts, "Nothing is finished yet."]) + "\n", False
    parts.append(table(
        ("case", "seed", "fp32 %", "ternary %", "gap", "loss fp32", "loss tern.", "s fp32", "s tern.", "up", "down",
         "hash ternary", "replicas"), [row for case in shown for row in seed_rows(case)]))
    parts.append("Means over the seeds that have both. 95 % interval: two-sided; upper bound: one-sided (Student's t).")
    parts.append(table(
        ("case", "seeds", "fp32 %", "ternary %", "gap", "95 % interval", "upper 95 %", "loss fp32", "loss tern.",
         "s fp32", "s tern."), [mean_row(case) for case in shown]))
    missed = False
    crowds = {result["jobs_at_once"] for case in shown for result in case.results.values()}
    if crowds != {1}:
        parts.append(f"Times were taken with up to {max(crowds)} runs at once.")
    if short:
        parts.append("These are short runs: the bars are for full runs and are not checked.")
    else:
        verdicts = [judge(case, bars) for case in cases if case.results or not case.optional]
        parts.append(table(("case", "asked", "measured", "verdict"), [row for rows, _ in verdicts for row in rows]))
        missed = any(failed for _, failed in verdicts)
    return "\n\n".join(parts) + "\n", missed


def as_json(title, cases, machine):
    """Returns the same results as JSON."""
    found = {"title": title, "machine": machine, "cases": []}
    for case in cases:
        low, high, upper = case.interval or (None, None, None)
        runs = [{"seed": seed, "codec": codec} | case.results[seed, codec] for seed, codec in sorted(case.results)]
        found["cases"].append({
            "case": case.name, "seeds_wanted": case.wanted, "pairs": len(case.pairs), "gaps_points": case.gaps,
            "mean_gap_points": statistics.fmean(case.gaps) if case.gaps else None,
            "gap_interval_95_two_sided": [low, high], "gap_upper_95_one_sided": upper, "runs": runs})
    return json.dumps(found, indent=1) + "\n"
