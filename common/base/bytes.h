// Bytes: an immutable, reference-counted byte buffer with a release function, cheap to copy and to
// slice. The owner of the memory may be a std::string, a received network frame or another object.
// Thread-safe like shared_ptr: copies may be used and dropped on different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

class Bytes {
 public:
  Bytes() = default;

  // Returns a buffer that owns `data`.
  static Bytes Own(std::string data) {
    auto owner = std::make_shared<std::string>(std::move(data));
    const auto* begin = reinterpret_cast<const uint8_t*>(owner->data());
    const size_t size = owner->size();
    return Bytes(begin, size, std::move(owner));
  }
  static Bytes Own(std::vector<uint8_t> data) {
    auto owner = std::make_shared<std::vector<uint8_t>>(std::move(data));
    const uint8_t* begin = owner->data();
    const size_t size = owner->size();
    return Bytes(begin, size, std::move(owner));
  }
  // Returns a buffer that refers to the memory [data, data + size). The caller keeps that memory
  // valid until `release` is called: once, on the thread that drops the last copy.
  static Bytes Share(const uint8_t* data, size_t size, std::function<void()> release) {
    std::shared_ptr<const void> owner(data,
                                      [release = std::move(release)](const void*) { release(); });
    return Bytes(data, size, std::move(owner));
  }

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const uint8_t> span() const { return {data_, size_}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Returns bytes [offset, offset + size) of this buffer, without a copy. REQUIRES offset + size <=
  // this->size().
  Bytes Slice(size_t offset, size_t size) const { return Bytes(data_ + offset, size, owner_); }

  friend bool operator==(const Bytes& a, const Bytes& b) { return a.view() == b.view(); }

 private:
  Bytes(const uint8_t* data, size_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace tern
