// The syntax tree of a job, before its keys are interpreted. Both syntaxes are parsed into it;
// fill.cc interprets it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/config/faults.h"

namespace tern::config {

// Limits on the input.
constexpr size_t kMaxText = size_t{1} << 20;  // bytes of a file
constexpr size_t kMaxNodes = 10000;           // keys and values
constexpr size_t kMaxDepth = 16;              // the deepest key of a job has depth 8

struct Node {
  enum class Kind { kNull, kScalar, kMap, kList };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;          // kScalar
  bool quoted = false;       // kScalar: written in quotes
  bool text_format = false;  // from protobuf text, where a repeated field may repeat its key
  bool at_fault = false;     // has a fault that is already reported
  std::vector<Node> keys;    // kMap: the scalars that name the items
  std::vector<Node> items;   // kMap, kList
};

// The dotted name of a key or list item, as messages write it: "servers[0].address".
inline std::string Join(const std::string& parent, std::string_view key) {
  return parent.empty() ? std::string(key) : parent + "." + std::string(key);
}
inline std::string Join(const std::string& parent, size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

}  // namespace tern::config
