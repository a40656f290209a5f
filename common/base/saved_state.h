// The state that an object saves in checkpoints, as references to named arrays and numbers. Writing
// a checkpoint reads the arrays and numbers; restoring it overwrites them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tern {

// The references are valid as long as the object whose state they refer to. An object always lists
// the same names and sizes.
struct SavedState {
  struct Array {
    std::string name;
    std::span<float> values;
  };
  struct Number {
    std::string name;
    uint64_t* value;
  };
  std::vector<Array> arrays;
  std::vector<Number> numbers;

  // Appends all entries of `more`, with `prefix` before their names.
  void Append(const SavedState& more, const std::string& prefix = "") {
    for (const Array& array : more.arrays) arrays.push_back({prefix + array.name, array.values});
    for (const Number& number : more.numbers)
      numbers.push_back({prefix + number.name, number.value});
  }
};

}  // namespace tern
