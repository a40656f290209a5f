#!/usr/bin/env python3
"""Checks file names, lengths of files and functions, #pragma once, and leftover work or machine-specific paths."""
import re

import sources

MAX_LINES, MAX_TEST_LINES, MAX_FUNCTION = 400, 600, 60
SOURCES = (".cc", ".h", ".cu", ".cuh", ".proto", ".py", ".sh", ".cmake", "CMakeLists.txt")
NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+|CMakeLists\.txt|Tern\w+\.cmake|__init__\.py")

# Markers of unfinished work, and paths of one machine. Written so that they do not match this file.
LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|DISABLED" r"_\w+)\b|^(<{7}|>{7}) ")
PRIVATE_PATH = re.compile(r"(?<![\w.:/}*~-])/(home|root|work|workspace|Users|mnt|media)/\w")

CONTAINER = re.compile(r"\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|enum|union|extern)\b", re.DOTALL)


def check_functions(path, code):
    """Checks the length of functions. A brace outside of any function, after text with parentheses, opens a function."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.MULTILINE)
    opened, last = [], 0  # opened: (is a function, position); last: the end of the previous statement
    for match in re.finditer(r"[{};]", code):
        if match.group(0) == "{":
            head = code[last:match.start()]
            inside = any(is_function for is_function, _ in opened)
            starts = "(" in head and not CONTAINER.match(head) and head.rstrip()[-1:] not in "=(,"
            where = last + len(head) - len(head.lstrip())
            opened.append((starts and not inside, where))
        elif match.group(0) == "}" and opened:
            is_function, where = opened.pop()
            size = code.count("\n", where, match.start()) + 1
            if is_function and size > MAX_FUNCTION:
                yield f"{path}:{sources.line_of(code, where)}: a function of {size} lines; at most {MAX_FUNCTION}"
        last = match.end()


def check(path):
    name = path.rsplit("/", 1)[-1]
    is_source = path.endswith(SOURCES)
    if is_source and not NAME.fullmatch(name):
        yield f"{path}: file names are snake_case"
    text = sources.text(path)
    lines = text.split("\n")
    cap = MAX_TEST_LINES if path.startswith(("bench/", "tests/")) else MAX_LINES
    if is_source and len(lines) - 1 > cap:
        yield f"{path}: {len(lines) - 1} lines; at most {cap}; split the file"
    if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", text, re.MULTILINE):
        if "HWY_TARGET_TOGGLE" not in text:  # files for Highway are included once per target
            yield f"{path}: no #pragma once"
    if "\0" in text or path.startswith("tests/fuzz/corpus/"):
        return
    is_patch = path.endswith(".patch")  # of somebody else's text
    for number, line in enumerate(lines, 1):
        if is_patch and not line.startswith("+"):
            continue
        if LEFT_OVER.search(line):
            yield f"{path}:{number}: work left over: {line.strip()}"
        if PRIVATE_PATH.search(line):
            yield f"{path}:{number}: a path of one machine: {line.strip()}"
    if path.endswith((".cc", ".h", ".cu", ".cuh")):
        yield from check_functions(path, sources.code(path))


if __name__ == "__main__":
    sources.finish([fault for path in sources.files() for fault in check(path)])
