// A bounds-checked look into an x86-64 ELF relocatable object in memory.
#ifndef GOSSAMER_RUNTIME_ELFOBJECT_H
#define GOSSAMER_RUNTIME_ELFOBJECT_H

#include "gossamer/program/Result.h"

#include <cstdint>
#include <elf.h>
#include <span>
#include <string>
#include <vector>

namespace gossamer {

struct ElfSection {
  Elf64_Shdr header = {};
  std::string name;
  std::span<const uint8_t> content; // empty for .bss
};

struct ElfSymbol {
  Elf64_Sym entry = {};
  std::string name;
};

/// Relocations of one section.
struct ElfRelocations {
  size_t section = 0;
  std::vector<Elf64_Rela> entries; // symbol indices are valid
};

struct ElfObject {
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;
  std::vector<ElfRelocations> relocations;

  static Result<ElfObject> parse(std::span<const uint8_t> bytes);
};

} // namespace gossamer

#endif
