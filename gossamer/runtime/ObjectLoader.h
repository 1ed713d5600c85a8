// Maps the machine code of a program: one x86-64 ELF relocatable object.
//
// The object's sections are copied into one mapping, its relocations applied,
// code made executable and constants read-only. No page is ever writable and
// executable at once. Functions outside the object come from a short list of
// math and memory functions; anything else is an error with its name.
#ifndef GOSSAMER_RUNTIME_OBJECTLOADER_H
#define GOSSAMER_RUNTIME_OBJECTLOADER_H

#include "gossamer/program/Result.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace gossamer {

/// Pages from the system, unmapped when the owner goes.
class MappedPages {
public:
  MappedPages() = default;
  MappedPages(void *address, size_t bytes) : data(address), size(bytes) {}
  MappedPages(MappedPages &&other) noexcept { swap(other); }
  MappedPages &operator=(MappedPages &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedPages();

private:
  void swap(MappedPages &other) noexcept {
    std::swap(data, other.data);
    std::swap(size, other.size);
  }

  void *data = nullptr;
  size_t size = 0;
};

class LoadedObject {
public:
  static Result<LoadedObject> load(std::span<const uint8_t> object);

  /// The address of a global function, or null.
  void *find(const std::string &symbol) const;

private:
  MappedPages pages;
  std::map<std::string, void *> functions;
};

} // namespace gossamer

#endif
