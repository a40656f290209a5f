"""What the logs of a drill say about recovery: when a fault was noticed, when its victim was back, what was repeated."""
import datetime
import re
import statistics

LINE = re.compile(r"^[IWEF](\d{8} \d\d:\d\d:\d\d\.\d{6}) +\d+ [\w.]+:\d+\] (.*)$")
FIGURES = re.compile(r"^step \d+")  # the line of every metrics.log_every_s, which says nothing of a fault
NOTICED = re.compile(r"is suspect|is lost|was lost|is silent for|silent for|was asked to stop|has not moved")
WENT_BACK = re.compile(r"(?:goes on from|all go on from|go on from).*? step (\d+)|went back to round (\d+)|all go back to the beginning")
BACK = {
    "worker": re.compile(r"training from step|has come back"),
    "server": re.compile(r"all \d+ workers are here|has come back|went back|goes on from"),
}


def lines_of(folder, daemons="*"):
    """Returns (time, daemon, text) of all lines of the logs of these daemons, a pattern, by time."""
    lines = []
    for path in (folder / "logs").glob(f"{daemons}.*/*.log"):
        daemon = path.parent.name.rsplit(".", 1)[0]
        for line in path.read_text(errors="replace").splitlines():
            if found := LINE.match(line):
                when = datetime.datetime.strptime(found.group(1), "%Y%m%d %H:%M:%S.%f").timestamp()
                lines.append((when, daemon, found.group(2)))
    return sorted(lines)


def silences(lines, history, begin, end, longest_s):
    """Returns (begin, seconds) of each stretch longer than `longest_s` with no new round, and no line of a log but of figures."""
    signs = sorted([begin, end, *(when for when, _, text in lines if not FIGURES.match(text)), *(when for when, _ in history)])
    signs = [when for when in signs if begin <= when <= end]
    return [(a, b - a) for a, b in zip(signs, signs[1:]) if b - a > longest_s]


def measure(event, lines, history, until):
    """Adds to an event: seconds until it was noticed, until its victim was back after it was mended, rounds lost."""
    window = [(when, daemon, text) for when, daemon, text in lines if event["begin"] <= when < until]
    noticed = [when for when, daemon, text in window if daemon not in event["targets"] and NOTICED.search(text)]
    event["noticed_s"] = noticed[0] - event["begin"] if noticed else None
    mended = event["mended"]
    back = []
    if event["restarts"]:
        for target in event["targets"]:
            pattern = BACK[target.split(".")[0]]
            found = [when for when, daemon, text in window if daemon == target and when >= mended and pattern.search(text)]
            back.append(found[0] if found else None)
    # Rounds go on when shard 0 reports a newer one; it reports twice a second.
    rounds_before = max((rounds for when, rounds in history if when <= mended), default=0)
    moved = [when for when, rounds in history if when > mended and rounds > rounds_before]
    event["back_s"] = max(back) - mended if back and None not in back else None
    event["moved_s"] = moved[0] - mended if moved else None
    lost = 0
    for _, _, text in window:
        if found := WENT_BACK.search(text):
            lost = max(lost, event["rounds"] - int(found.group(1) or found.group(2) or 0))
    event["rounds_lost"] = max(0, lost)


def table(events, kinds):
    """Returns the table of recovery times by kind of fault, as text."""
    def cell(values):
        return f"{statistics.median(values):.2f} / {max(values):.2f}" if values else "-"

    rows = [("fault", "times", "noticed s", "back s", "next round s", "rounds lost", "ended s")]
    for kind in kinds:
        own = [event for event in events if event["kind"] == kind and not event["partner"]]
        if not own:
            continue
        values = {key: [event[key] for event in own if event.get(key) is not None]
                  for key in ("noticed_s", "back_s", "moved_s", "ended_s")}
        lost = max(event["rounds_lost"] for event in own)
        rows.append((kind, str(len(own)), cell(values["noticed_s"]), cell(values["back_s"]), cell(values["moved_s"]),
                     str(lost), cell(values["ended_s"])))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("| " + " | ".join(word.ljust(width) for word, width in zip(row, widths)) + " |" for row in
                     [rows[0], tuple("-" * width for width in widths), *rows[1:]])
