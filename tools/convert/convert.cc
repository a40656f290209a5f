// tern convert: files of others into Tern's and back. A kind is a line in the table and a file of
// its own.
#include "tools/convert/convert.h"

#include <string>
#include <vector>

#include "common/base/text.h"
#include "tools/commands.h"

namespace tern::tools {
namespace {

struct Kind {
  const char* name;
  Status (*run)(const Words& words);
};

const std::vector<Kind> kKinds = {
    {"onnx", &ConvertOnnx},
    {"pack", &ConvertPack},
};

}  // namespace

Status Convert(const Words& words) {
  const std::string name = words.empty() ? "" : words[0];
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind.run(Words(words.begin() + 1, words.end()));
    known.emplace_back(kind.name);
  }
  return Status(Code::kUsage, Cat(name.empty() ? "tern convert needs a kind after it"
                                               : "tern convert knows no '" + Printable(name) + "'",
                                  "; known: ", Join(known)));
}

}  // namespace tern::tools
