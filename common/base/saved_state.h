// The state that an object has to save: named arrays and numbers, by reference, to read them or to
// write them back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tern {

// Valid as long as the object that filled it. An object gives the same names and sizes every time.
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

  // Adds what `more` has, its names after `prefix`.
  void Append(const SavedState& more, const std::string& prefix = "") {
    for (const Array& array : more.arrays) arrays.push_back({prefix + array.name, array.values});
    for (const Number& number : more.numbers)
      numbers.push_back({prefix + number.name, number.value});
  }
};

}  // namespace tern
