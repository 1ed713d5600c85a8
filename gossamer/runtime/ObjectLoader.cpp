// The mapping, in order: code and jump stubs (read, execute), constants and the
// global offset table (read), variables (read, write). One mapping keeps
// everything within the reach of 32-bit displacements. A call to an imported
// function goes through a stub, since that function may be anywhere.

#include "gossamer/runtime/ObjectLoader.h"

#include "gossamer/runtime/ElfObject.h"
#include "gossamer/runtime/KernelImports.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace gossamer {

namespace {

enum Segment { Code, Constants, Variables, kSegments };

constexpr uint64_t kNotMapped = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSlotSize = 8;
constexpr uint64_t kStubSize = 8;
constexpr uint64_t kMaxImage = uint64_t(1) << 30;

const char *relocationName(uint32_t type) {
  switch (type) {
#define GOSSAMER_NAME(name)                                                    \
  case name:                                                                   \
    return #name;
    GOSSAMER_NAME(R_X86_64_NONE)
    GOSSAMER_NAME(R_X86_64_64)
    GOSSAMER_NAME(R_X86_64_PC32)
    GOSSAMER_NAME(R_X86_64_GOT32)
    GOSSAMER_NAME(R_X86_64_PLT32)
    GOSSAMER_NAME(R_X86_64_COPY)
    GOSSAMER_NAME(R_X86_64_GLOB_DAT)
    GOSSAMER_NAME(R_X86_64_JUMP_SLOT)
    GOSSAMER_NAME(R_X86_64_RELATIVE)
    GOSSAMER_NAME(R_X86_64_GOTPCREL)
    GOSSAMER_NAME(R_X86_64_32)
    GOSSAMER_NAME(R_X86_64_32S)
    GOSSAMER_NAME(R_X86_64_16)
    GOSSAMER_NAME(R_X86_64_PC16)
    GOSSAMER_NAME(R_X86_64_8)
    GOSSAMER_NAME(R_X86_64_PC8)
    GOSSAMER_NAME(R_X86_64_DTPMOD64)
    GOSSAMER_NAME(R_X86_64_DTPOFF64)
    GOSSAMER_NAME(R_X86_64_TPOFF64)
    GOSSAMER_NAME(R_X86_64_TLSGD)
    GOSSAMER_NAME(R_X86_64_TLSLD)
    GOSSAMER_NAME(R_X86_64_DTPOFF32)
    GOSSAMER_NAME(R_X86_64_GOTTPOFF)
    GOSSAMER_NAME(R_X86_64_TPOFF32)
    GOSSAMER_NAME(R_X86_64_PC64)
    GOSSAMER_NAME(R_X86_64_GOTOFF64)
    GOSSAMER_NAME(R_X86_64_GOTPC32)
    GOSSAMER_NAME(R_X86_64_GOT64)
    GOSSAMER_NAME(R_X86_64_GOTPCREL64)
    GOSSAMER_NAME(R_X86_64_GOTPC64)
    GOSSAMER_NAME(R_X86_64_PLTOFF64)
    GOSSAMER_NAME(R_X86_64_SIZE32)
    GOSSAMER_NAME(R_X86_64_SIZE64)
    GOSSAMER_NAME(R_X86_64_GOTPCRELX)
    GOSSAMER_NAME(R_X86_64_REX_GOTPCRELX)
#undef GOSSAMER_NAME
  default:
    return "an unknown relocation";
  }
}

bool isGotRelative(uint32_t type) {
  return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
         type == R_X86_64_REX_GOTPCRELX;
}

bool isAbsolute32(uint32_t type) {
  return type == R_X86_64_32 || type == R_X86_64_32S;
}

/// Relocations whose target must be near, or low in memory.
bool isReach32(uint32_t type) {
  return isAbsolute32(type) || type == R_X86_64_PC32 || type == R_X86_64_PLT32;
}

/// Sections that a kernel needs at run time. Kernels neither throw nor unwind.
bool isMapped(const ElfSection &section) {
  return (section.header.sh_flags & SHF_ALLOC) &&
         section.header.sh_type != SHT_NOTE &&
         section.header.sh_type != SHT_X86_64_UNWIND &&
         section.name != ".eh_frame";
}

Segment segmentOf(const ElfSection &section) {
  if (section.header.sh_flags & SHF_EXECINSTR)
    return Code;
  // .data.rel.ro is written by relocations only, which come before protection.
  bool written = (section.header.sh_flags & SHF_WRITE) &&
                 !section.name.starts_with(".data.rel.ro");
  return written ? Variables : Constants;
}

uint64_t aligned(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

class Loader {
public:
  explicit Loader(ElfObject parsed)
      : object(std::move(parsed)), page(uint64_t(sysconf(_SC_PAGESIZE))),
        places(object.sections.size(), kNotMapped),
        slots(object.symbols.size(), kNotMapped),
        stubs(object.symbols.size(), kNotMapped) {}

  Status load() {
    for (auto step : {&Loader::countIndirections, &Loader::layOut, &Loader::map,
                      &Loader::relocateAll, &Loader::protect})
      if (Status s = (this->*step)(); !s.ok())
        return s;
    return {};
  }

  MappedPages takePages() { return std::move(pages); }

  std::map<std::string, void *> functions() const {
    std::map<std::string, void *> found;
    for (const ElfSymbol &symbol : object.symbols) {
      auto bind = ELF64_ST_BIND(symbol.entry.st_info);
      if ((bind == STB_GLOBAL || bind == STB_WEAK) &&
          ELF64_ST_TYPE(symbol.entry.st_info) == STT_FUNC && isMapped(symbol) &&
          symbol.entry.st_value < sectionOf(symbol).header.sh_size)
        found[symbol.name] = image + offsetOf(symbol);
    }
    return found;
  }

private:
  static bool isDefined(const ElfSymbol &symbol) {
    return symbol.entry.st_shndx != SHN_UNDEF &&
           symbol.entry.st_shndx < SHN_LORESERVE;
  }
  bool isMapped(const ElfSymbol &symbol) const {
    return isDefined(symbol) && symbol.entry.st_shndx < places.size() &&
           places[symbol.entry.st_shndx] != kNotMapped;
  }
  const ElfSection &sectionOf(const ElfSymbol &symbol) const {
    return object.sections[symbol.entry.st_shndx];
  }
  uint64_t offsetOf(const ElfSymbol &symbol) const {
    return places[symbol.entry.st_shndx] + symbol.entry.st_value;
  }

  /// Gives a table slot to each symbol that code reaches through one, and a
  /// stub and a slot to each imported function.
  Status countIndirections() {
    uint64_t nextSlot = 0, nextStub = 0;
    for (const ElfRelocations &relocations : object.relocations) {
      if (!gossamer::isMapped(object.sections[relocations.section]))
        continue;
      for (const Elf64_Rela &entry : relocations.entries) {
        uint32_t type = ELF64_R_TYPE(entry.r_info);
        uint64_t index = ELF64_R_SYM(entry.r_info);
        bool imported = isReach32(type) && !isDefined(object.symbols[index]);
        if ((isGotRelative(type) || imported) && slots[index] == kNotMapped)
          slots[index] = kSlotSize * nextSlot++;
        if (imported && stubs[index] == kNotMapped)
          stubs[index] = kStubSize * nextStub++;
        lowMemory |= isAbsolute32(type);
      }
    }
    slotBytes = kSlotSize * nextSlot;
    stubBytes = kStubSize * nextStub;
    return {};
  }

  /// Places each section, the stubs behind the code, the slots behind the
  /// constants.
  Status layOut() {
    uint64_t at = 0;
    for (int segment = 0; segment < kSegments; ++segment) {
      segments[segment] = at = aligned(at, page);
      for (size_t i = 0; i < object.sections.size(); ++i) {
        const ElfSection &section = object.sections[i];
        if (!gossamer::isMapped(section) || segmentOf(section) != segment)
          continue;
        if (section.header.sh_flags & SHF_TLS)
          return makeError(ErrorCode::Unsupported, "section ", section.name,
                           " holds thread-local variables");
        uint64_t alignment = std::max<uint64_t>(section.header.sh_addralign, 1);
        if (alignment > page || (alignment & (alignment - 1)) != 0 ||
            section.header.sh_size > kMaxImage)
          return makeError(ErrorCode::Corrupt, "section ", section.name,
                           " has alignment ", alignment, " and size ",
                           section.header.sh_size);
        places[i] = at = aligned(at, alignment);
        at += section.header.sh_size;
        if (at > kMaxImage)
          return makeError(ErrorCode::Unsupported,
                           "object code is larger than ", kMaxImage, " bytes");
      }
      uint64_t &tail = segment == Code ? stubsAt : slotsAt;
      if (segment == Variables)
        continue;
      tail = at = aligned(at, kSlotSize);
      at += segment == Code ? stubBytes : slotBytes;
    }
    segments[kSegments] = aligned(at, page);
    return {};
  }

  Status map() {
    size_t size = std::max<size_t>(segments[kSegments], page);
    // Code built for a fixed address holds absolute 32-bit addresses.
    int low = lowMemory ? MAP_32BIT : 0;
    void *data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | low, -1, 0);
    if (data == MAP_FAILED)
      return makeError(ErrorCode::OutOfMemory, "cannot map ", size,
                       " bytes for code: ", std::strerror(errno));
    pages = MappedPages(data, size);
    image = static_cast<uint8_t *>(data);
    for (size_t i = 0; i < object.sections.size(); ++i)
      if (places[i] != kNotMapped && !object.sections[i].content.empty())
        std::memcpy(image + places[i], object.sections[i].content.data(),
                    object.sections[i].content.size());
    return {};
  }

  Status relocateAll() {
    for (const ElfRelocations &relocations : object.relocations) {
      if (places[relocations.section] == kNotMapped)
        continue;
      for (const Elf64_Rela &entry : relocations.entries)
        if (Status s = relocate(relocations.section, entry); !s.ok())
          return s;
    }
    return {};
  }

  Status relocate(size_t section, const Elf64_Rela &entry) {
    uint32_t type = ELF64_R_TYPE(entry.r_info);
    uint64_t index = ELF64_R_SYM(entry.r_info);
    const ElfSymbol &symbol = object.symbols[index];
    if (type == R_X86_64_NONE)
      return {};

    uint64_t width = type == R_X86_64_64 ? 8 : 4;
    uint64_t size = object.sections[section].header.sh_size;
    if (size < width || entry.r_offset > size - width)
      return failed(type, symbol, "is outside its section");
    Result<uint64_t> target = addressOf(symbol);
    if (!target.ok())
      return failed(type, symbol, target.error().text.c_str());
    if (slots[index] != kNotMapped)
      std::memcpy(image + slotsAt + slots[index], &target.value(), kSlotSize);

    uint8_t *place = image + places[section] + entry.r_offset;
    uint64_t here = uint64_t(place), addend = uint64_t(entry.r_addend);
    if (type == R_X86_64_64)
      return store(place, target.value() + addend);
    if (isGotRelative(type))
      return store32(place,
                     uint64_t(image) + slotsAt + slots[index] + addend - here,
                     type, symbol);
    if (!isReach32(type))
      return failed(type, symbol, "is not supported");
    uint64_t reached =
        stubs[index] == kNotMapped ? target.value() : writeStub(index);
    uint64_t origin = isAbsolute32(type) ? 0 : here;
    return store32(place, reached + addend - origin, type, symbol);
  }

  Result<uint64_t> addressOf(const ElfSymbol &symbol) const {
    if (isDefined(symbol)) {
      if (!isMapped(symbol))
        return makeError(ErrorCode::Unsupported,
                         "refers to a section that is not mapped");
      if (symbol.entry.st_value > sectionOf(symbol).header.sh_size)
        return makeError(ErrorCode::Corrupt, "refers past its section");
      return uint64_t(image) + offsetOf(symbol);
    }
    if (symbol.entry.st_shndx == SHN_UNDEF)
      if (void *address = kernelImport(symbol.name))
        return uint64_t(address);
    return makeError(ErrorCode::Unsupported,
                     "refers to a symbol that kernels may not use");
  }

  /// jmp *slot(%rip), padded to kStubSize.
  uint64_t writeStub(uint64_t index) {
    uint8_t *stub = image + stubsAt + stubs[index];
    const uint64_t jumpSize = 6;
    int32_t distance = int32_t(int64_t(slotsAt + slots[index]) -
                               int64_t(stubsAt + stubs[index] + jumpSize));
    std::array<uint8_t, kStubSize> code = {0xff, 0x25, 0, 0, 0, 0, 0xcc, 0xcc};
    std::memcpy(&code[2], &distance, sizeof(distance));
    std::memcpy(stub, code.data(), code.size());
    return uint64_t(stub);
  }

  static Status store(uint8_t *place, uint64_t value) {
    std::memcpy(place, &value, sizeof(value));
    return {};
  }

  static Status store32(uint8_t *place, uint64_t value, uint32_t type,
                        const ElfSymbol &symbol) {
    bool fits = type == R_X86_64_32
                    ? value <= std::numeric_limits<uint32_t>::max()
                    : int64_t(value) == int32_t(value);
    if (!fits)
      return failed(type, symbol, "does not reach its target");
    uint32_t word = uint32_t(value);
    std::memcpy(place, &word, sizeof(word));
    return {};
  }

  static Status failed(uint32_t type, const ElfSymbol &symbol,
                       const char *what) {
    return makeError(ErrorCode::Unsupported,
                     "object code: ", relocationName(type), " (type ", type,
                     ") against '", symbol.name, "' ", what);
  }

  Status protect() {
    const int protection[kSegments] = {PROT_READ | PROT_EXEC, PROT_READ,
                                       PROT_READ | PROT_WRITE};
    for (int segment = 0; segment < kSegments; ++segment) {
      uint64_t begin = segments[segment],
               end = aligned(segments[segment + 1], page);
      if (begin < end &&
          mprotect(image + begin, end - begin, protection[segment]) != 0)
        return makeError(ErrorCode::Internal,
                         "cannot protect code: ", std::strerror(errno));
    }
    return {};
  }

  ElfObject object;
  const uint64_t page;
  std::vector<uint64_t> places; // by section: offset in the image
  std::vector<uint64_t> slots;  // by symbol: offset in the table
  std::vector<uint64_t> stubs;  // by symbol: offset among the stubs
  std::array<uint64_t, kSegments + 1> segments = {};
  uint64_t slotBytes = 0, stubBytes = 0;
  uint64_t slotsAt = 0, stubsAt = 0;
  bool lowMemory = false;
  MappedPages pages;
  uint8_t *image = nullptr;
};

} // namespace

MappedPages::~MappedPages() {
  if (data)
    munmap(data, size);
}

Result<LoadedObject> LoadedObject::load(std::span<const uint8_t> object) {
  LoadedObject loaded;
  if (object.empty())
    return loaded;
  Result<ElfObject> parsed = ElfObject::parse(object);
  if (!parsed.ok())
    return parsed.error();
  Loader loader(std::move(parsed.value()));
  if (Status status = loader.load(); !status.ok())
    return status.error();
  loaded.functions = loader.functions();
  loaded.pages = loader.takePages();
  return loaded;
}

void *LoadedObject::find(const std::string &symbol) const {
  auto found = functions.find(symbol);
  return found == functions.end() ? nullptr : found->second;
}

} // namespace gossamer
