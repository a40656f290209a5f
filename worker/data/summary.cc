#include "worker/data/summary.h"

#include <algorithm>
#include <span>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::data {

namespace {

constexpr size_t kMaxNamesBytes = 128;  // of the class names in the text

template <typename T>
uint64_t DigestOf(const std::vector<T>& values) {
  return Digest(
      std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)));
}

std::string FactsOf(const Dataset& dataset) {
  std::string names;
  for (const std::string& name : dataset.class_names) names += Cat(name.size(), ":", name);
  return Cat(dataset.count(), " ", dataset.classes, " ", dataset.height, " ", dataset.width, " ",
             Hex(DigestOf(dataset.labels)), Hex(DigestOf(dataset.sizes)), Hex(Digest(names)));
}

// The first names, as many as fit: " (cat, dog, ...)"; nothing if the classes have no names.
std::string NamesText(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    const std::string printable_name = Printable(name, kMaxNamesBytes / 4);
    if (text.size() + printable_name.size() > kMaxNamesBytes) {
      text += ", ...";
      break;
    }
    text += (text.empty() ? "" : ", ") + printable_name;
  }
  return text.empty() ? text : Cat(" (", text, ")");
}

}  // namespace

Summary Summarize(const Dataset& training, const Dataset& test) {
  return {Digest(FactsOf(training) + FactsOf(test)),
          Cat(Thousands(training.count()), " training and ", Thousands(test.count()),
              " test images in ", std::max(training.classes, test.classes), " classes",
              NamesText(training.class_names))};
}

}  // namespace tern::data
