// A shared library that a program opens while it runs, so that the program also starts where the
// library is missing. Internal to the engine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::engine {

class SharedLibrary {
 public:
  // Opens the library `name` ("libcudnn.so.9"): the one that the system's loader finds or, if it
  // finds none, the first in `folders`. kBadJob with the loader's words if there is none. The
  // library stays open until the process ends.
  static Result<SharedLibrary> Open(const std::string& name,
                                    const std::vector<std::string>& folders);

  // The folder that the library was opened from.
  std::string Folder() const;

  // Sets `*function`, a pointer to a function, to the library's function `symbol`. kBadJob if the
  // library has no such function.
  template <typename Function>
  Status Find(const char* symbol, Function** function) const {
    auto address = Find(symbol);
    if (!address.ok()) return address.status();
    *function = reinterpret_cast<Function*>(*address);
    return Ok();
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  Result<void*> Find(const char* symbol) const;

  void* handle_;
};

// The folders where CUDA's toolkit and the wheels of PyTorch keep NVIDIA's libraries: below
// $CUDA_HOME, /usr/local/cuda*, $VIRTUAL_ENV, $CONDA_PREFIX and /usr/local/lib/python3*.
std::vector<std::string> NvidiaFolders();

}  // namespace tern::engine
