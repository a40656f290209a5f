// Arrays as long as a model. Passes over them reach the speed of memory only with large pages: with
// 4 KiB pages they wait for page-table walks (an update, which reads and writes two such arrays, is
// 1.3 times as fast with large pages). Smaller arrays are aligned to cache lines.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace tern {

// Asks the system for huge pages (transparent_hugepage: madvise or always); falls back to normal
// pages.
template <class T>
class LargePages {
 public:
  using value_type = T;
  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) {}  // NOLINT(google-explicit-constructor): as allocators must

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    void* const at = ::operator new(bytes, Alignment(bytes));
    if (bytes >= kHugePage) (void)::madvise(at, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return static_cast<T*>(at);
  }
  void deallocate(T* at, size_t n) { ::operator delete(at, Alignment(n * sizeof(T))); }
  bool operator==(const LargePages&) const { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr size_t kCacheLine = 64;
  static std::align_val_t Alignment(size_t bytes) {
    return std::align_val_t{bytes >= kHugePage ? kHugePage : kCacheLine};
  }
};

using Floats = std::vector<float, LargePages<float>>;

}  // namespace tern
