#!/usr/bin/env python3
"""Checks that only an algorithm's own files use its name. Other files use the facts in common/algorithm/facts.h.

An algorithm's own files are those named after it, and the tables. Their number is limited, because removing an
algorithm has to touch all of them.
"""
import re

import sources

PROTO = "proto/job.proto"
ROOMS = ("client/", "common/", "kernels/", "models/", "server/", "setup/", "tools/", "worker/")
OWN_FOLDERS = ("client/train/algorithms/", "common/algorithm/", "server/rules/")
MAX_FILES, MAX_FILES_WITH_RULE = 6, 9  # includes proto/job.proto; excludes CMake, configs, docs and tests

RULES = "server/rules/clock_rules.cc"
TABLES = {"common/algorithm/rules.cc", RULES, "server/rules/clock_rules.h", "client/train/algorithms.cc", "client/train/algorithms.h"}
# Files that several algorithms share.
SHARED = {
    "common/algorithm/dcasgd.cc": ("dcasgd_c", "dcasgd_a"),
    "server/rules/dcasgd.cc": ("dcasgd_c", "dcasgd_a"),
    "client/train/algorithms/asgd.cc": ("asgd", "dcasgd_c", "dcasgd_a", "ssp", "softsync"),
}
# The table of local updaters; two of OD-SGD's updaters have names of algorithms.
LOCAL_UPDATERS = "common/update/local_updater.cc"

SECTION = re.compile(r"^\s*optional\s+(\w+)\s+(\w+)\s*=\s*\d+\s*\[\(traits\)", re.MULTILINE)


class Algorithm:
    def __init__(self, match, proto):
        self.type, self.name = match.groups()
        self.where = f"{PROTO}:{sources.line_of(proto, match.start(1))}"
        name, camel = re.escape(self.name), "".join(word.capitalize() for word in self.name.split("_"))
        # Matches a literal with its name or a key of its section, the accessors of the section, and its message.
        self.asks = re.compile(rf'"{name}"|"[^"\n]*\btrain\.{name}\b[^"\n]*"|(?:\.|->)(?:clear_|has_|mutable_)?{name}\(\)|'
                               rf"\bpb::{self.type}\b")
        self.makes = re.compile(rf"\bMake{camel}\b")

    def owns(self, path):
        folder, file = path.rsplit("/", 1)
        return (folder + "/" in OWN_FOLDERS and file == self.name + ".cc") or self.name in SHARED.get(path, ())


def code_files():
    return [path for path in sources.cpp_files() if path.startswith(ROOMS) and path != LOCAL_UPDATERS]


def check_names(algorithms, texts):
    for path, text in texts.items():
        if path in TABLES:
            continue
        owners = {algorithm.type for algorithm in algorithms if algorithm.owns(path)}
        for algorithm in algorithms:
            if algorithm.owns(path):
                continue
            for match in algorithm.asks.finditer(text):
                if match.group(0) == f"pb::{algorithm.type}" and algorithm.type in owners:
                    continue
                yield (f"{path}:{sources.line_of(text, match.start())}: {match.group(0)}: asks for the algorithm "
                       f"{algorithm.name} by name; its facts are in common/algorithm/facts.h")


def check_budget(algorithms, texts):
    for algorithm in algorithms:
        files = [PROTO] + [path for path, text in texts.items() if algorithm.owns(path) or algorithm.asks.search(text)
                           or algorithm.makes.search(text)]
        at_most = MAX_FILES_WITH_RULE if algorithm.asks.search(texts.get(RULES, "")) else MAX_FILES
        if len(files) > at_most:
            yield f"{algorithm.where}: {algorithm.name} is in {len(files)} files, {', '.join(files)}; at most {at_most}"


def main():
    proto = sources.text(PROTO) if PROTO in sources.files() else ""
    algorithms = [Algorithm(match, proto) for match in SECTION.finditer(proto)]
    texts = {path: sources.uncommented(path) for path in code_files()}
    sources.finish([*check_names(algorithms, texts), *check_budget(algorithms, texts)])


if __name__ == "__main__":
    main()
