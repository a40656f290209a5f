#!/usr/bin/env python3
"""Checks comments for tables, formulas and diagrams that a formatter has damaged, and for references to missing files.

A table, formula or diagram is a group of comment lines that are indented by two or more spaces after the marker.
"""
import io
import re
import tokenize

import sources

MAX_COLUMNS = 100
CPP = (".h", ".cc", ".cu", ".cuh")

LINE = re.compile(r"^(\s*)(//|#)(.*)$")
GAP = re.compile(r"(?<=\S) {2,}(?=\S)")  # between two columns
ASSIGNMENT = re.compile(r"[\w'\])}|] +[-+*/]?= ")
FORMULA = re.compile(r"\S{1,24} +[-+*/]?= ")
SEPARATOR = re.compile(r"[;,:]|\b(?:and|or|if|where|with|while|else|so|then|at|for)\b")
OPEN_END = re.compile(r"(?:[\w)\]'] [-+*/=]|[-+*/]=)$")
QUOTED = re.compile(r'"[^"]*("|$)|`[^`]*`')
ARROW = re.compile(r"--+>|<--+")
# Lines of this length may have been wrapped by a tool.
LONG = 85

FILE = re.compile(r"(?<![\w/.*{}$-])((?:[\w-]+/)*[\w-]+\.(?:md|h|cc|cu|cuh|proto|py|sh))\b(?!\.\w)")
PLACEHOLDER = re.compile(r"[A-Z]{2,}|(?:^|/)(?:x|foo)(?:_|\.)")
FOREIGN = re.compile(r"^(?:hwy|google|sys|openssl)/|^(?:jpeglib\.h|summary\.proto)$")
SECTION = re.compile(r"\b[Ss]ections? (\d+)")
OUR_SECTION = re.compile(r"([\w/-]+\.md),?\s+sections? (\d+)(?: (?:and|to) (\d+))?$")
PAPER = re.compile(r"\b(?:paper|study|survey|et al|arXiv|RFC|(?:19|20)\d\d|[A-Z]\w*(?:SGD|Grad))")
NUMBERED = re.compile(r"\b(?:[Cc]orrections? \d|design(?:\.md)?,? section)")


def own_lines(text):
    """Yields the comments that are alone on their lines, as blocks of (line number, column, text after the marker)."""
    block, indent = [], None
    for number, line in enumerate(text.split("\n"), 1):
        match = LINE.match(line)
        if match and match.group(3)[:1] in ("", " "):
            if block and match.group(1) != indent:
                yield block
                block = []
            indent = match.group(1)
            block.append((number, len(line), match.group(3)))
        elif block:
            yield block
            block = []
    if block:
        yield block


def starts_of(text):
    """Returns the positions where the columns of a row start."""
    return [len(text) - len(text.lstrip())] + [match.end() for match in GAP.finditer(text)]


def unclosed(text):
    return text.count("(") > text.count(")")


def closes_early(text):
    """Returns whether the text closes a parenthesis that it has not opened."""
    depth = 0
    for mark in re.findall(r"[()]", text):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            return True
    return False


def check_row(text):
    """Yields the faults of one line of a table or formula."""
    columns = [column for column in GAP.split(text.strip()) if column]
    formulas = [column for column in columns if FORMULA.match(column)]
    if any(column[-1] not in ",;" for column in formulas[:-1]):
        yield "two formulas on one line; one a line"
    for column in columns:
        marks = list(ASSIGNMENT.finditer(column))
        for first, second in zip(marks, marks[1:]):
            between = column[first.end():second.start()]
            if not SEPARATOR.search(between) and "=" not in between and "(" not in between:
                yield "two formulas without anything between them; one a line"
    if OPEN_END.search(text):
        yield f"a formula ends with '{text.split()[-1]}'; put it on one line, or the operator on the next"


def check_pair(above, below, base):
    """Yields the faults of two successive lines of a table, formula or diagram whose rows begin at column `base`."""
    (_, width, first), (_, _, second) = above, below
    indent = starts_of(first)[0]
    if starts_of(second)[0] != indent or not second.strip() or (indent != base and "+--" not in first):
        return
    words = second.split()
    drawn = GAP.search(first.strip()) or ARROW.search(first)
    plain = not ASSIGNMENT.search(second + " ") and not GAP.search(second.strip())
    if drawn and unclosed(first) and closes_early(second):
        yield "the end of a row stands under its first column; indent it to its own column"
    elif width >= LONG and plain and len(words) <= 3 and len(second.strip()) <= 25 and not words[0][0].isupper():
        yield "the end of a row stands on a line of its own; shorten the row, or indent it to its column"
    elif width >= LONG and ARROW.search(first) and ARROW.search(second) and words[0][0].islower():
        yield "a diagram goes on in the middle of a state; shorten it"


def check_columns(rows):
    """Rows with three or more columns must have aligned columns."""
    starts = [(number, starts_of(text)) for number, _, text in rows]
    wide = [(number, columns) for number, columns in starts if len(columns) >= 3]
    if len(wide) < 3 or any(ARROW.search(text) or "|" in text or "^" in text for _, _, text in rows):
        return
    for number, columns in wide:
        others = {column for other, theirs in wide if other != number for column in theirs[1:]}
        if not others & set(columns[1:]):
            yield number, "its columns stand nowhere near those of the other rows"


def check_bars(block):
    """Rows like '| a | b |' must have the same number of columns."""
    rows = [(number, text.strip()) for number, _, text in block if re.match(r"\s*\| *\w.* \| ", text)]
    for (_, first), (number, second) in zip(rows, rows[1:]):
        if first.count("|") != second.count("|"):
            yield number, f"{second.count('|')} bars, and {first.count('|')} in the row above"


def check_block(path, block):
    for number, width, text in block:
        if path.endswith(CPP) and width > MAX_COLUMNS:
            yield number, f"a comment of {width} columns; at most {MAX_COLUMNS}"
    drawn = [line for line in block if re.match(r" {3,}\S", line[2])]
    for number, _, text in drawn:
        for fault in check_row(text):
            yield number, fault
    base = min((starts_of(text)[0] for _, _, text in drawn), default=0)
    for above, below in zip(block, block[1:]):
        if re.match(r" {3,}\S", above[2]):
            for fault in check_pair(above, below, base):
                yield below[0], fault
        elif re.match(r" \w", above[2]) and GAP.search(QUOTED.sub("q", above[2])) and re.match(r" [a-z]", below[2]):
            yield above[0], "columns in a sentence; put them into lines of their own"
    yield from check_columns(drawn)
    yield from check_bars(block)


def check_drawings(path, text):
    for block in own_lines(text):
        for number, fault in check_block(path, block):
            yield f"{path}:{number}: {fault}"


def comments(path):
    """Yields all comments of a file as (line, text); joins comments on successive lines."""
    text = sources.text(path)
    if path.endswith(".py"):
        found, statement = [], True
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string.lstrip("#")))
            elif token.type == tokenize.STRING and statement:
                found.append((token.start[0], token.string))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    elif path.endswith(CPP + (".proto",)):
        found = [(sources.line_of(text, at), words) for at, words in sources.comments_of(text)]
    else:
        found = [(number, match.group(3)) for number, line in enumerate(text.split("\n"), 1)
                 if (match := LINE.match(line)) and match.group(2) == "#" and not line.startswith("#!")]
    merged = []
    for line, words in found:
        if merged and line == merged[-1][0] + merged[-1][1].count("\n") + 1:
            merged[-1] = (merged[-1][0], merged[-1][1] + "\n" + words)
        else:
            merged.append((line, words))
    return merged


def exists(name, path, known):
    folder = path.rsplit("/", 1)[0]
    return name in known or f"{folder}/{name}" in known or any(other.endswith("/" + name) for other in known)


def headings(name):
    return set(re.findall(r"^## (\d+)\.", sources.text(name), re.MULTILINE))


def check_references(path, known):
    for line, text in comments(path):
        where = lambda position: f"{path}:{line + text.count(chr(10), 0, position)}"
        for match in FILE.finditer(text):
            name = match.group(1)
            if not PLACEHOLDER.search(name.rsplit("/", 1)[-1].rsplit(".", 1)[0]) and not FOREIGN.search(name):
                if not exists(name, path, known):
                    yield f"{where(match.start())}: {name} is not in the tree"
        for match in NUMBERED.finditer(text):
            yield f"{where(match.start())}: '{match.group(0)}' refers to a page that is not in the tree; cite an existing page"
        for match in SECTION.finditer(text):
            before = re.sub(r"\s+", " ", text[:match.end()])
            ours = OUR_SECTION.search(before)
            if ours:
                if ours.group(1) in known and ours.group(2) not in headings(ours.group(1)):
                    yield f"{where(match.start())}: {ours.group(1)} has no section {ours.group(2)}"
            elif not PAPER.search(before[-160:]):
                yield f"{where(match.start())}: '{match.group(0)}' without a page; name the page or the paper"


def check(path, known):
    if path.startswith(("tests/fuzz/corpus/", "scripts/lint/")):
        return
    if path.endswith(CPP + (".proto",)):
        yield from check_drawings(path, sources.text(path))
    if path.endswith(CPP + (".proto", ".py", ".sh", ".yaml", ".cmake", "CMakeLists.txt")):
        yield from check_references(path, known)


if __name__ == "__main__":
    known = set(sources.files())
    sources.finish([fault for path in sources.files() for fault in check(path, known)])
