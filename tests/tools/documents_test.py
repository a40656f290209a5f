#!/usr/bin/env python3
"""Compares what --help, the man page and the completion of bash and zsh say of every program and command: the same flags.

  documents_test.py BUILD_FOLDER

Also: roff has no warning about a man page, and bash completes what it should. zsh is asked only where it is installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1])
SHARE = BUILD / "share"
faults = []


def output(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **more)
    if done.returncode != 0:
        faults.append(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def expect(condition, sentence):
    if not condition:
        faults.append(sentence)


def commands_of_tern():
    """Returns the commands that `tern help` lists: "run", "keys make"."""
    listed = output(BUILD / "bin/tern", "help").split("Commands:\n")[1].split("\n\n")[0]
    return [re.match(r"  ([a-z_ ]*?)  ", line).group(1).strip() for line in listed.splitlines()]


def flags_of_help(words):
    text = output(*words, "--help")
    expect(f"Usage: {pathlib.Path(words[0]).name}" in text, f"{words}: no usage in --help")
    return set(re.findall(r"^  (?:-[a-zA-Z],)?--([a-z_]+)", text, re.MULTILINE))


def flags_of_page(name):
    path = SHARE / f"man/man1/{name}.1"
    if not path.exists():
        faults.append(f"there is no page {path}")
        return set()
    options = path.read_text().split(".SH OPTIONS")[1].split(".SH ")[0]
    return set(re.findall(r"^(?:\\fB\\-[a-zA-Z]\\fR, )?\\fB\\-\\-([a-z_]+)\\fR", options, re.MULTILINE))


def bash_completes(line):
    """Returns what bash offers for the last word of a line; a line that ends with a space has an empty one."""
    words = line.split(" ")
    program = words[0]
    script = (f"source {SHARE}/bash-completion/completions/{program}\n"
              f"COMP_WORDS=({' '.join(repr(word) for word in words)}) COMP_CWORD={len(words) - 1}\n"
              f"_{program}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return set(output("bash", "-c", script).split())


def flags_of_zsh(program, command):
    text = (SHARE / f"zsh/site-functions/_{program}").read_text()
    case = text.split(f"    '{command}')\n")[1].split(";;")[0]
    return set(re.findall(r"'(?:\*|\(- \*\))--([a-z_]+)[=\[]", case))


def check_flags(words, command):
    expected = flags_of_help(words)
    expect("help" in expected and len(expected) > 1, f"{command}: --help lists only {expected}")
    found = {"the man page": flags_of_page(command.replace(" ", "-")),
             "bash": {word[2:] for word in bash_completes(f"{command} --")},
             "zsh": flags_of_zsh(command.split()[0], command)}
    for where, flags in found.items():
        expect(flags == expected, f"{command}: --help has {sorted(expected)}, {where} {sorted(flags)}")


def check_pages():
    pages = sorted(SHARE.glob("man/man*/*"))
    expect(len(pages) > 8, f"only {len(pages)} pages in {SHARE}/man")
    for page in pages:
        if shutil.which("groff"):
            warnings = output("groff", "-man", "-ww", "-z", "-Tutf8", page)
            expect(not warnings, f"groff on {page}: {warnings}")
        if shutil.which("mandoc"):
            output("mandoc", "-T", "lint", "-W", "warning", page)


def check_bash():
    expect({"run", "check", "keys", "convert", "help", "--version"} <= bash_completes("tern "), "tern: commands")
    expect("generate_docs" not in bash_completes("tern "), "tern: a hidden command is offered")
    expect(bash_completes("tern ch") == {"check"}, "tern ch")
    expect(bash_completes("tern keys ") == {"make", "--help", "-h"}, "tern keys")
    expect(bash_completes("tern convert p") == {"pack"}, "tern convert p")
    expect(bash_completes("tern convert pack --format ci") == {"cifar10", "cifar100"}, "a word of --format")
    expect(bash_completes("tern convert pack --format = i") == {"idx"}, "a word of --format=")
    expect(bash_completes("tern run ") == set(), "the job of tern run: bash itself completes names of files")
    expect(bash_completes("tern run --log_dir ") == set(), "the value of --log_dir")
    expect(bash_completes("tern run job.yaml --re") == {"--restarts"}, "a flag behind the job")
    expect(bash_completes("tern_server --ra") == {"--rank"}, "tern_server --ra")
    expect(bash_completes("tern_worker --ev") == {"--evaluate"}, "tern_worker --ev")


def main():
    for command in commands_of_tern():
        check_flags([BUILD / "bin/tern", *command.split()], f"tern {command}")
    for program in ("tern_server", "tern_worker"):
        check_flags([BUILD / f"bin/{program}"], program)
    check_pages()
    check_bash()
    if shutil.which("zsh"):
        for path in sorted(SHARE.glob("zsh/site-functions/_*")):
            output("zsh", "-n", path)
    job_page = (SHARE / "man/man5/tern-job.5").read_text()
    for section in ("servers", "workers", "model", "data", "train", "exchange", "faults"):
        expect(f".SH {section}\n" in job_page, f"tern-job.5 has no section {section}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
