#include "worker/engine/cuda/cudnn/shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/text.h"

namespace tern::engine {

namespace {

std::string LoaderError() {
  const char* error = dlerror();
  return error == nullptr ? "unknown error" : error;
}

// Appends the paths that match a pattern of the shell.
void AppendMatches(const std::string& pattern, std::vector<std::string>* paths) {
  glob_t matches = {};
  if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &matches) == 0) {
    for (size_t i = 0; i < matches.gl_pathc; ++i) paths->push_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
}

}  // namespace

Result<SharedLibrary> SharedLibrary::Open(const std::string& name,
                                          const std::vector<std::string>& folders) {
  if (void* handle = dlopen(name.c_str(), RTLD_NOW)) return SharedLibrary(handle);
  const std::string first_error = LoaderError();
  for (const std::string& folder : folders) {
    if (void* handle = dlopen(Cat(folder, "/", name).c_str(), RTLD_NOW))
      return SharedLibrary(handle);
  }
  return Status(Code::kBadJob, first_error);
}

std::string SharedLibrary::Folder() const {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return "";
  return std::filesystem::path(map->l_name).parent_path();
}

Result<void*> SharedLibrary::Find(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address == nullptr) return Status(Code::kBadJob, LoaderError());
  return address;
}

std::vector<std::string> NvidiaFolders() {
  std::vector<std::string> folders;
  if (const char* toolkit = std::getenv("CUDA_HOME"))
    AppendMatches(Cat(toolkit, "/lib64"), &folders);
  AppendMatches("/usr/local/cuda*/lib64", &folders);
  AppendMatches("/usr/local/cuda*/targets/*/lib", &folders);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* environment = std::getenv(variable);
    if (environment == nullptr) continue;
    AppendMatches(Cat(environment, "/lib"), &folders);
    AppendMatches(Cat(environment, "/lib/python3*/site-packages/nvidia/*/lib"), &folders);
  }
  AppendMatches("/usr/local/lib/python3*/*-packages/nvidia/*/lib", &folders);
  return folders;
}

}  // namespace tern::engine
