// A job's text as a tree, before it is known what its keys mean. Both syntaxes become this; what a
// key may hold is decided once, in fill.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/config/faults.h"

namespace tern::config {

// Bounds of what is read at all.
constexpr size_t kMaxText = size_t{1} << 20;  // bytes of a file
constexpr size_t kMaxNodes = 10000;           // keys and values
constexpr size_t kMaxDepth = 16;              // the deepest key of a job stands at 8

struct Node {
  enum class Kind { kNull, kScalar, kMap, kList };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;     // kScalar
  bool quoted = false;  // kScalar: "2", not 2
  bool text_format =
      false;  // protobuf text: a repeated field's items may stand singly, under the same key each
  bool at_fault = false;    // was reported already
  std::vector<Node> keys;   // kMap: scalars, as many as items
  std::vector<Node> items;  // kMap, kList
};

// The dotted names in messages: "servers[0].address".
inline std::string Join(const std::string& parent, std::string_view key) {
  return parent.empty() ? std::string(key) : parent + "." + std::string(key);
}
inline std::string Join(const std::string& parent, size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

}  // namespace tern::config
