#include "gossamer/runtime/ElfObject.h"

#include <algorithm>
#include <cstring>

namespace gossamer {

namespace {

using Bytes = std::span<const uint8_t>;

template <typename... Parts> Error damaged(const Parts &...parts) {
  return makeError(ErrorCode::Corrupt, "damaged object code: ", parts...);
}

/// The bytes [offset, offset + size), when they exist.
bool slice(Bytes bytes, uint64_t offset, uint64_t size, Bytes &out) {
  if (offset > bytes.size() || size > bytes.size() - offset)
    return false;
  out = bytes.subspan(size_t(offset), size_t(size));
  return true;
}

/// The records of a table; a rest that is no whole record is dropped.
template <typename T> std::vector<T> records(Bytes bytes) {
  std::vector<T> table(bytes.size() / sizeof(T));
  if (!table.empty())
    std::memcpy(table.data(), bytes.data(), table.size() * sizeof(T));
  return table;
}

/// The zero-terminated string at `offset` of a string table.
std::string stringAt(Bytes table, uint64_t offset) {
  if (offset >= table.size())
    return {};
  auto begin = table.begin() + ptrdiff_t(offset);
  return {begin, std::find(begin, table.end(), 0)};
}

Status checkHeader(const Elf64_Ehdr &header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return damaged("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
    return damaged("not a 64-bit little-endian relocatable object");
  if (header.e_machine == EM_AARCH64)
    return makeError(ErrorCode::Unsupported,
                     "object code is for aarch64; only x86-64 is supported");
  if (header.e_machine != EM_X86_64)
    return makeError(ErrorCode::Unsupported, "object code is for ELF machine ",
                     header.e_machine, "; only x86-64 is supported");
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    return damaged("section headers of ", header.e_shentsize, " bytes");
  return {};
}

Status readSections(Bytes bytes, const Elf64_Ehdr &header, ElfObject &object) {
  Bytes table;
  if (!slice(bytes, header.e_shoff,
             uint64_t(header.e_shnum) * sizeof(Elf64_Shdr), table))
    return damaged("the section table is cut off");
  for (const Elf64_Shdr &entry : records<Elf64_Shdr>(table)) {
    ElfSection section{entry, {}, {}};
    if (entry.sh_type != SHT_NOBITS && entry.sh_type != SHT_NULL &&
        !slice(bytes, entry.sh_offset, entry.sh_size, section.content))
      return damaged("section ", object.sections.size(), " is cut off");
    object.sections.push_back(std::move(section));
  }
  if (header.e_shstrndx >= object.sections.size())
    return damaged("no section names");
  Bytes names = object.sections[header.e_shstrndx].content;
  for (ElfSection &section : object.sections)
    section.name = stringAt(names, section.header.sh_name);
  return {};
}

Status readSymbols(ElfObject &object) {
  for (const ElfSection &section : object.sections) {
    if (section.header.sh_type != SHT_SYMTAB)
      continue;
    if (section.header.sh_link >= object.sections.size())
      return damaged("the symbol table has no names");
    Bytes names = object.sections[section.header.sh_link].content;
    for (const Elf64_Sym &entry : records<Elf64_Sym>(section.content))
      object.symbols.push_back({entry, stringAt(names, entry.st_name)});
  }
  return {};
}

Status readRelocations(ElfObject &object) {
  for (const ElfSection &section : object.sections) {
    if (section.header.sh_type == SHT_REL)
      return damaged("relocations without addends, which x86-64 does not have");
    if (section.header.sh_type != SHT_RELA)
      continue;
    if (section.header.sh_info >= object.sections.size())
      return damaged("relocations of a section that does not exist");
    ElfRelocations relocations{section.header.sh_info,
                               records<Elf64_Rela>(section.content)};
    for (const Elf64_Rela &entry : relocations.entries)
      if (ELF64_R_SYM(entry.r_info) >= object.symbols.size())
        return damaged("a relocation names a symbol that does not exist");
    object.relocations.push_back(std::move(relocations));
  }
  return {};
}

} // namespace

Result<ElfObject> ElfObject::parse(Bytes bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header))
    return damaged(bytes.size(), " bytes are no ELF file");
  std::memcpy(&header, bytes.data(), sizeof(header));
  ElfObject object;
  if (Status s = checkHeader(header); !s.ok())
    return s.error();
  if (Status s = readSections(bytes, header, object); !s.ok())
    return s.error();
  if (Status s = readSymbols(object); !s.ok())
    return s.error();
  if (Status s = readRelocations(object); !s.ok())
    return s.error();
  return object;
}

} // namespace gossamer
