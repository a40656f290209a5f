// Arrays of floats with one element per parameter of a model. With 4 KiB pages, loops over such
// long arrays wait for page-table walks; with huge pages they reach the speed of memory (an
// optimizer update, which reads and writes two such arrays, is 1.3 times as fast). Arrays that are
// smaller than a huge page are aligned to cache lines.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace tern {

// An allocator that asks the system for huge pages (transparent_hugepage: madvise or always) and
// falls back to normal pages.
template <class T>
class HugePageAllocator {
 public:
  using value_type = T;
  HugePageAllocator() = default;
  // Implicit, because containers convert allocators.
  template <class U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    void* const memory = ::operator new(bytes, AlignmentFor(bytes));
    if (bytes >= kHugePageBytes)
      (void)::madvise(memory, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) { ::operator delete(memory, AlignmentFor(n * sizeof(T))); }
  bool operator==(const HugePageAllocator&) const { return true; }

 private:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  static constexpr size_t kCacheLineBytes = 64;
  static std::align_val_t AlignmentFor(size_t bytes) {
    return std::align_val_t{bytes >= kHugePageBytes ? kHugePageBytes : kCacheLineBytes};
  }
};

using Floats = std::vector<float, HugePageAllocator<float>>;

}  // namespace tern
