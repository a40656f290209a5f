// tern convert: converts files between Tern's formats and others. Every conversion has a row in
// kConverters.
#include "tools/convert/convert.h"

#include <string>
#include <vector>

#include "common/base/text.h"
#include "tools/commands.h"

namespace tern::tools {
namespace {

struct Converter {
  const char* name;
  Status (*run)(const Args& args);
};

const std::vector<Converter> kConverters = {
    {"onnx", &ConvertOnnx},
    {"pack", &ConvertPack},
};

}  // namespace

Status ConvertFiles(const Args& args) {
  const std::string name = args.empty() ? "" : args[0];
  std::vector<std::string> known_names;
  for (const Converter& converter : kConverters) {
    if (name == converter.name) return converter.run(Args(args.begin() + 1, args.end()));
    known_names.emplace_back(converter.name);
  }
  return Status(Code::kUsage,
                Cat(name.empty() ? "tern convert needs the name of a conversion"
                                 : "tern convert does not know '" + Printable(name) + "'",
                    "; known: ", Join(known_names)));
}

}  // namespace tern::tools
