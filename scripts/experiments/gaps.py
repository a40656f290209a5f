"""A table of rows against one of them, seed by seed: accuracy, training loss and bytes."""
import statistics

import claims
import report
import student


def accuracy_gaps(found, name, base):
    """Returns by how many points row `name` is below row `base`."""
    return [-report.POINTS * gap for gap in claims.paired_values(found, name, base, lambda figures: figures["accuracy"])]


def loss_gaps(found, name, base):
    """Returns by how much the training loss of row `name` is above that of row `base`."""
    return claims.paired_values(found, name, base, lambda figures: figures["train_loss"])


def verdict_of(gaps, losses, margin, adjusted):
    """Says how a row's accuracy compares with the base, from the p-values (worse, equal) of the row."""
    worse, equal = adjusted
    if len(gaps) < 2:
        return "-"
    words = ["worse"] if worse < claims.LEVEL else []
    words += [f"within {margin}"] if equal < claims.LEVEL else []
    words = words or [claims.UNDECIDED]
    return ", ".join(words + (["higher loss"] if student.p_above(losses, 0) < claims.LEVEL else []))


def table(found, base, names, margin):
    """Returns the table as Markdown, and {name: (accuracy gaps, loss gaps, p worse, p within `margin` points)}. The p-values are
    adjusted by Holm's method over the rows."""
    gaps = {name: (accuracy_gaps(found, name, base), loss_gaps(found, name, base)) for name in names if found.get(name)}
    worse = student.holm([student.p_above(each, 0) for each, _ in gaps.values()])
    equal = student.holm([student.p_equivalent(each, margin) for each, _ in gaps.values()])
    judged = {name: (*gaps[name], p, q) for name, p, q in zip(gaps, worse, equal)}
    cells = []
    for name in [base, *(name for name in names if name != base)]:
        values = list(found.get(name, {}).values())
        if not values:
            continue
        mine = judged.get(name, ([], [], 1, 1)) if name != base else ([], [], 1, 1)
        cells.append((name, len(values), report.mean_text([value["accuracy"] for value in values], 2, 100),
                      claims.mean_text(mine[0], 2), claims.interval_text(mine[0], 2),
                      report.mean_text([value["train_loss"] for value in values], 4),
                      claims.mean_text(mine[1], 4), claims.interval_text(mine[1], 4),
                      *(f"{statistics.fmean(value[way] / value['samples'] for value in values):.0f}" for way in ("up_bytes", "down_bytes")),
                      verdict_of(mine[0], mine[1], margin, mine[2:])))
    head = ("row", "seeds", "accuracy %", "gap", "95 % interval", "training loss", "above", "95 % interval", "up B", "down B", "")
    return report.table(head, cells), judged


EXPLAINED = """Accuracy of all test images, in %; gap: by how many points a row is below {base}, seed by seed; training loss: mean of the last
{span} steps, and by how much it is above that of {base}. Intervals are two-sided, 95 %, Student's t. Worse: a gap above 0 (one-sided test); within
{margin}: a gap of less than {margin} points either way (two one-sided tests); both with Holm's correction over the rows. Bytes are a sample's."""
