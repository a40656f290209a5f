#!/usr/bin/env python3
"""Plants one fault of each kind in a tree of its own and sees that the checks find it, and nothing in a sound file."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEAD = "#pragma once\n"
SECTIONS = """optional Psgd psgd = 1 [(traits) = {window: 1}];
optional Ssp ssp = 2
    [(traits) = {window: 1}];
"""
LONG_BODY = "void F() {\n" + "  G();\n" * 60 + "}\n"

CHECKS = ("layers", "files", "names", "algorithms")

# check, file, its text, what the check must say of it
FAULTS = [
    ("layers", "server/a.cc", '#include "worker/engine/net.h"\n', 'server may not include "worker/engine/net.h"'),
    ("layers", "kernels/a.cc", '#include "common/base/ok.h"\n', 'kernels may not include "common/base/ok.h"'),
    ("layers", "common/base/a.cc", '#include "gone.h"\n', "our files are named from the root"),
    ("layers", "common/base/b.cc", '#include "common/base/gone.h"\n', "does not exist"),
    ("layers", "common/new/a.cc", '#include "proto/ok.h"\n', "has no line in LAYERS"),
    ("layers", "server/b.cc", "#include <zmq.h>\n", "(ZeroMQ) belongs behind a wrapper in common/net"),
    ("layers", "common/net/a.h", HEAD + "#include <zmq.h>\n", "a header that server reaches shows <zmq.h>"),
    ("layers", "common/net/b.h", HEAD + '#include "common/net/a.h"\n', None),
    ("layers", "server/c.cc", '#include "common/net/b.h"\n', None),
    ("files", "server/CamelCase.cc", "", "file names are snake_case"),
    ("files", "server/long.cc", "\n" * 401, "401 lines; at most 400"),
    ("files", "tests/long_test.cc", "\n" * 600, None),
    ("files", "server/a.h", "", "no #pragma once"),
    ("files", "server/d.cc", LONG_BODY, "server/d.cc:1: a function of 62 lines"),
    ("files", "server/e.cc", "namespace tern {\nclass A {\n " + LONG_BODY + "};\n}\n", "e.cc:3: a function of 62 lines"),
    ("files", "server/f.cc", "const char* k = \"/ho" "me/me/data\";\n", "a path of one machine"),
    ("files", "scripts/a.sh", "# TO" "DO: more\n", "work left over"),
    ("names", "server/g.cc", "struct lower_case {};\n", "lower_case: types are CamelCase"),
    ("names", "server/h.cc", "enum class A { kGood, BAD };\n", "BAD: values are kCamelCase"),
    ("names", "server/i.cc", "constexpr int limit = 3;\n", "limit: constants are kCamelCase"),
    ("names", "server/j.cc", "#define SHORT 1\n", "SHORT: macros"),
    ("names", "server/k.cc", "void doThing();\n", "doThing: functions are CamelCase"),
    ("names", "server/b.h", "class A {\n private:\n  std::vector<int> items = {};\n};\n", "private member items"),
    ("names", "server/l.cc", "namespace tern::other {\n", "the namespace of this folder is tern::server"),
    ("names", "tests/a_test.cc", "TEST(Frame, rejects_it) {}\n", "rejects_it: names of tests"),
    ("algorithms", "proto/job.proto", SECTIONS, "proto/job.proto:1: psgd is in 8 files"),
    ("algorithms", "server/m.cc", "bool A() { return name == \"psgd\"; }\n", "m.cc:1: \"psgd\": asks for the algorithm"),
    ("algorithms", "tools/a.cc", "int A() { return train.psgd().p(); }\n", "a.cc:1: .psgd(): asks for the algorithm"),
    ("algorithms", "tools/b.cc", "void A() { train->clear_ssp(); }\n", "->clear_ssp(): asks for the algorithm"),
    ("algorithms", "common/a.cc", "\n// psgd\nstd::string key = \"train.psgd.p is\";\n", "a.cc:3: \"train.psgd.p is\": asks"),
    ("algorithms", "models/a.cc", "void A(const pb::Psgd& section);\n", "pb::Psgd: asks for the algorithm"),
    ("algorithms", "worker/train/ssp.cc", "bool A() { return name == \"psgd\"; }\n", "\"psgd\": asks for the algorithm"),
    ("algorithms", "worker/train/psgd.cc", "int A() { return train.psgd().p(); }  // not \"ssp\"\n", None),
    ("algorithms", "worker/train/algorithms.cc", "const Row kTable[] = {{\"psgd\", MakePsgd}, {\"ssp\", MakeSsp}};\n", None),
    ("algorithms", "tests/b_test.cc", "int A() { return train.psgd().p(); }\n", None),
]
SOUND = """#pragma once
// A comment may say doThing, and a string too.
#include <string>
namespace tern {
constexpr int kLimit = 3;
enum class Mode : int { kOne = 1, kTwo };
class Sound {
 public:
  int size() const { return size_; }
  static constexpr char kText[] = "doThing // not a comment";

 private:
  int size_ = 0;
};
}  // namespace tern
"""


def run(tree, check):
    command = [sys.executable, "-B", str(tree / f"scripts/lint/check_{check}.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    with tempfile.TemporaryDirectory() as name:
        tree = pathlib.Path(name)
        subprocess.run(["git", "init", "-q", name], check=True)
        shutil.copytree(HERE, tree / "scripts/lint", ignore=shutil.ignore_patterns("__pycache__"))
        for path in ("common/base/ok.h", "proto/ok.h", "worker/engine/net.h"):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(SOUND if path.startswith("common") else HEAD)
        missed = [f"on a sound tree: {check}: {run(tree, check).stdout}" for check in CHECKS
                  if run(tree, check).returncode != 0]
        for _, path, text, _ in FAULTS:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        said = {check: run(tree, check).stdout for check in CHECKS}
        for check, path, _, sentence in FAULTS:
            lines = [line for line in said[check].splitlines() if line.startswith(path + ":")]
            if (sentence is None and lines) or (sentence and not any(sentence in line for line in lines)):
                missed.append(f"{check}, {path}: expected {sentence!r}, seen {lines}")
    for line in missed:
        print(line)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
