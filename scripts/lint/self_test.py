#!/usr/bin/env python3
"""Tests the lint checks: plants one fault of each kind in a temporary tree and requires that the checks find exactly
these."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = ("layers", "files", "names", "comments", "mentions", "structure", "algorithms")
HEAD = "#pragma once\n"
SECTIONS = """optional Psgd psgd = 1 [(traits) = {window: 1}];
optional Ssp ssp = 2
    [(traits) = {window: 1}];
"""
KERNELS = ("__global__ void __launch_bounds__(kSome, 2)\n    A(int n) {}\n"
           "__global__ void __launch_bounds__(kMore) B(int n) {}\n")
LONG_BODY = "void F() {\n" + "  G();\n" * 60 + "}\n"

# check, file, its text, the message that the check must print (None: no fault)
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
    ("files", "docs/a.md", "text\n" + 7 * "<" + " HEAD\n", "work left over"),
    ("names", "server/g.cc", "struct lower_case {};\n", "lower_case: types are CamelCase"),
    ("names", "server/h.cc", "enum class A { kGood, BAD };\n", "BAD: values are kCamelCase"),
    ("names", "server/i.cc", "constexpr int limit = 3;\n", "limit: constants are kCamelCase"),
    ("names", "server/j.cc", "#define SHORT 1\n", "SHORT: macros"),
    ("names", "server/k.cc", "void doThing();\n", "doThing: functions are CamelCase"),
    ("names", "server/b.h", "class A {\n private:\n  std::vector<int> items = {};\n};\n", "private member items"),
    ("names", "server/l.cc", "namespace tern::other {\n", "the namespace of this folder is tern::server"),
    ("names", "tests/a_test.cc", "TEST(Frame, rejects_it) {}\n", "rejects_it: test names"),
    ("names", "tests/values.h", HEAD + "namespace tern {\ninline float Values(size_t n, float a) {\n}\n}\n", None),
    ("names", "tests/c_test.cc", "namespace tern {\nfloat Values(const size_t n, float b) {\n}\n}\n", "c_test.cc:2: Values: hides the one of tests/values.h"),
    ("names", "tests/d_test.cc", "namespace tern {\nfloat Values(size_t n) {\n}\n}\n", None),
    ("algorithms", "proto/job.proto", SECTIONS, "proto/job.proto:1: psgd is in 8 files"),
    ("algorithms", "server/t.cc", "bool A() { return name == \"psgd\"; }\n", "t.cc:1: \"psgd\": asks for the algorithm"),
    ("algorithms", "tools/a.cc", "int A() { return train.psgd().p(); }\n", "a.cc:1: .psgd(): asks for the algorithm"),
    ("algorithms", "tools/d.cc", "void A() { train->clear_ssp(); }\n", "->clear_ssp(): asks for the algorithm"),
    ("algorithms", "common/a.cc", "\n// psgd\nstd::string key = \"train.psgd.p is\";\n", "a.cc:3: \"train.psgd.p is\": asks"),
    ("algorithms", "models/a.cc", "void A(const pb::Psgd& section);\n", "pb::Psgd: asks for the algorithm"),
    ("algorithms", "worker/train/ssp.cc", "bool A() { return name == \"psgd\"; }\n", "\"psgd\": asks for the algorithm"),
    ("algorithms", "client/train/algorithms/psgd.cc", "int A() { return train.psgd().p(); }  // not \"ssp\"\n", None),
    ("algorithms", "client/train/algorithms.cc", "const Row kTable[] = {{\"psgd\", MakePsgd}, {\"ssp\", MakeSsp}};\n", None),
    ("algorithms", "tests/b_test.cc", "int A() { return train.psgd().p(); }\n", None),
    ("structure", "tools/a.h", HEAD + '#include "tools/b.h"\n', "includes itself through others: tools/a, tools/b"),
    ("structure", "tools/b.cc", '#include "tools/b.h"\n#include "tools/a.h"\n', None),
    ("structure", "tools/b.h", HEAD, None),
    ("structure", "models/a.h", HEAD + '#include "kernels/a.h"\n', "in a circle of folders: kernels, models"),
    ("structure", "kernels/a.h", HEAD, None),
    ("structure", "kernels/b.cc", '#include "models/a.h"\n', "in a circle of folders: kernels, models"),
    ("structure", "kernels/a.cu", KERNELS + "int F() { return Launch(A<1, 2>, 4, kMore, stream); }\n",
     "a.cu:4: kMore threads; the bound of A is kSome"),
    ("structure", "kernels/b.cu", KERNELS + "int F() { return Launch(x ? A<1> : B, 4, kSome, stream); }\n",
     "b.cu:4: kSome threads; the bound of B is kMore"),
    ("structure", "kernels/c.cu", KERNELS + "int F() { return Launch(B, G(4, 5), kMore, stream, x); }\n", None),
    ("structure", "client/a.cc", "void F() { if (device_ != nullptr) G(); }\n", "a step asks where values lie"),
    ("structure", "tools/c.h", HEAD + "class A {\n" + "".join(f"  void F{i}();\n" for i in range(26)) + "};\n",
     "class A has 26 methods; at most 25"),
    ("comments", "server/c.h", HEAD + f"//   sgd   w -= lr g{' ' * 40}(TensorFlow's\n//   form) adam m = 1\n", "c.h:3: the end of a row"),
    ("comments", "server/d.h", HEAD + "//   y = x s      dx = dy s\n", "d.h:2: two formulas on one line"),
    ("comments", "server/e.h", HEAD + "//   y = x s dw = dy x\n", "e.h:2: two formulas without anything between"),
    ("comments", "server/f.h", HEAD + "//   y = A^T m A    dw =\n//   G^T df G\n", "f.h:2: a formula ends with '='"),
    ("comments", "server/g.h", HEAD + f"//   w   {'word ' * 16}of what\n//   the\n", "g.h:3: the end of a row stands on a line of its"),
    ("comments", "server/h.h", HEAD + f"//      +---+ {'word ' * 16}tells\n//      of\n", "h.h:3: the end of a row stands on"),
    ("comments", "server/i.h", HEAD + f"//   on --{'go ' * 22}--> at, last\n//   work of all --> the end of the job\n", "i.h:3: a diagram goes on in"),
    ("comments", "server/j.h", HEAD + "//   a  u8   one\n//   b  u16  two\n//   c d       u32      of\n", "j.h:4: its columns stand"),
    ("comments", "server/k.h", HEAD + "//   | a | b | c |\n//   | d | e |\n", "k.h:3: 3 bars, and 4 in the row above"),
    ("comments", "server/l.h", HEAD + "// A sentence with   columns\n// that goes on.\n", "l.h:2: columns in a sentence"),
    ("comments", "server/m.h", HEAD + f"// {'x' * 98}\n", "m.h:2: a comment of 101 columns; at most 100"),
    ("comments", "server/m.cc", "// See notes.md.\n", "m.cc:1: notes.md is not in the tree"),
    ("comments", "server/n.cc", "int x;  // As gone.cc does.\n", "n.cc:1: gone.cc is not in the tree"),
    ("comments", "server/o.cc", "// As section 3\n// says.\n", "o.cc:1: 'section 3' without a page"),
    ("comments", "server/p.cc", "// As the design section 3 says.\n", "p.cc:1: 'design section' refers to a page that is not"),
    ("comments", "server/q.cc", "// As correction 5 says.\n", "q.cc:1: 'correction 5' refers to a page that is not"),
    ("comments", "server/r.cc", "// As page.md, section 2.\n", "r.cc:1: page.md has no section 2"),
    ("mentions", "server/u.cc", "// Waits for `later_time`.\n", "u.cc:1: `later_time` is in neither this file"),
    ("mentions", "server/v.cc", "// Guards count_ and counts_*.cc.\nint counts_;\n", "v.cc:1: there is no member count_"),
    ("mentions", "server/w.cc", "// As DoThat() does.\n", "w.cc:1: there is no function DoThat"),
    ("mentions", "server/x.cc", "// As Sound::DoMore does.\n", "x.cc:1: there is no function DoMore"),
    ("mentions", "server/y.cc", "// `size` and DoLess() set size_.\nvoid DoLess(int size) { size_ = size; }\n", None),
    ("comments", "tests/b.py", '"""As gone.md says."""\n', "b.py:1: gone.md is not in the tree"),
    ("comments", "server/s.cc", """// The paper, section 3; page.md,
// section 1; ok.h, x_ref.cc, *_cpu.cc and FILE.h.
//
//   sgd    w -= lr g             (PyTorch's form)
//   adam   m  = b1 m + g         b1 below 1
//          v  = b2 v + g g; w -= m / v
//
//   on --a--> off --b--> on
//             |          ^
//             +----------+ of
""", None),
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
        (tree / "page.md").write_text("# Page\n\n## 1. One\n")
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
