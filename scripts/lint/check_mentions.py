#!/usr/bin/env python3
"""Checks that comments of C++ files mention only names that there are: names in backticks, members (`name_`) and
functions (`DoThis()`, `Class::DoThis`). A rename that forgets a comment fails here."""
import re

import draw
import sources

WORD = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r"`([a-z]\w*)`")
MEMBER = re.compile(r"(?<![\w*])([a-z]\w{2,}_)\b(?![*.])")
FUNCTION = re.compile(r"\b(?:[A-Z]\w*::)?([A-Z][a-z]+[A-Z]\w*)\(|\b[A-Z][a-z]\w*::([A-Z][a-z]\w*)")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
INCLUDE = re.compile(r'#include "([^"]+)"')


def code_words(path):
    code = sources.code(path)
    strings = " ".join(STRING.findall(sources.uncommented(path)))
    return set(WORD.findall(code + " " + strings))


def check(path, words, foreign, everything):
    stem = path.rsplit(".", 1)[0]
    near = set().union(*(words.get(stem + ending, ()) for ending in (".h", ".cc", ".cu", ".cuh")))
    included = set().union(*(words.get(header, ()) for header in INCLUDE.findall(sources.text(path))))
    explained = set(WORD.findall(QUOTED.sub("", sources.text(path))))
    for line, comment in draw.comment_blocks(path):
        for name in QUOTED.findall(comment):
            if name not in near | included | foreign | explained:
                yield f"{path}:{line}: `{name}` is in neither this file nor its includes"
        for name in MEMBER.findall(comment):
            if name not in near | included:
                yield f"{path}:{line}: there is no member {name}"
        for pair in FUNCTION.findall(comment):
            name = pair[0] or pair[1]
            if name not in everything:
                yield f"{path}:{line}: there is no function {name}"


if __name__ == "__main__":
    words = {path: code_words(path) for path in sources.cpp_files()}
    foreign = set()
    for path in sources.files():
        if not path.startswith("scripts/lint/") and path.endswith((".proto", ".py", ".sh", ".cmake", "CMakeLists.txt", ".yaml")):
            foreign |= set(WORD.findall(sources.text(path)))
    everything = foreign.union(*words.values())
    sources.finish([fault for path in words for fault in check(path, words, foreign, everything)])
