"""Draws comments and names at random, to be read by somebody who knows C++ and the field but not Tern.

  scripts/lint/draw.py            60 of each; the seed is the first 8 hex digits of the commit
  scripts/lint/draw.py SEED       the same for another seed (hex)

Read each with nothing but its file at hand. A comment or name that is not understood at first reading is a defect."""
import random
import re
import subprocess
import sys

import sources

COUNT = 60
TYPE = r"(?:[A-Za-z_][\w:<>,*&\[\] ]*[\s*&])"
DECLARED = re.compile(
    r"^[ \t]*(?:(?:class|struct|enum class|enum|using)\s+(?:TERN_\w+(?:\([^)]*\))?\s+)?(?P<type>[A-Z]\w+)"
    r"|(?P<enumerator>k[A-Z]\w+)\s*(?:=[^,;]*)?,"
    rf"|{TYPE}(?P<function>[A-Z]\w*[a-z]\w*)\("
    rf"|{TYPE}(?P<variable>[a-z]\w*)\s*(?:;|=|\{{))", re.MULTILINE)
NOT_DECLARING = re.compile(r"^\s*(?:return|else|delete|throw|goto|case|namespace)\b")


def comment_blocks(path):
    """Yields (line, text) of whole comments: neighbouring lines of // belong together."""
    block, start, last = [], 0, -1
    for number, line in enumerate(sources.text(path).splitlines(), 1):
        match = re.match(r"(?P<code>.*?)//(?P<said>.*)$", line)
        alone = match is not None and not match["code"].strip()
        if alone and block and last == number - 1:
            block.append(match["said"])
            last = number
            continue
        if block:
            yield start, "\n".join(block)
            block = []
        if match is not None and '"' not in match["code"]:
            block, start, last = [match["said"]], number, number if alone else -1
    if block:
        yield start, "\n".join(block)


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=sources.ROOT, capture_output=True, check=True, text=True).stdout[:8]
    paths = sources.cpp_files() + [path for path in sources.files() if path.endswith(".proto")]
    comments = [(path, line, said) for path in paths for line, said in comment_blocks(path) 
                if re.search(r"\w \w", said) and not re.match(r" namespace|.*NOLINT", said)]
    names = {}  # the first place of each in its file
    for path in sources.cpp_files():
        code = sources.code(path)
        for match in DECLARED.finditer(code):
            if not NOT_DECLARING.match(match[0]):
                name = next(group for group in match.groups() if group)
                names.setdefault((path, name), sources.line_of(code, match.start(match.lastindex)))
    draw = random.Random(int(seed, 16))
    print(f"seed {seed}: {COUNT} of {len(comments)} comments, {COUNT} of {len(names)} names\n")
    for path, line, said in draw.sample(sorted(comments), COUNT):
        print(f"{path}:{line}:{said}")
    print()
    for path, name in draw.sample(sorted(names), COUNT):
        print(f"{path}:{names[path, name]}: {name}")


if __name__ == "__main__":
    main()
