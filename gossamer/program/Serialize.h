// Saved programs.
//
//   0   8  magic "GOSSAMER"
//   8   4  version of the kernel ABI (Abi.h)
//   12  4  version of this format
//   16  8  size of the payload in bytes
//   24 32  SHA-256 of the payload
//   56     payload: the fields of Program in the order of Program.h
//
// Numbers are little-endian; a list is its length (u32, code: u64) and its
// elements. A digest protects against damage, not against malice: a program
// holds machine code, so only trusted ones may be loaded.
#ifndef GOSSAMER_PROGRAM_SERIALIZE_H
#define GOSSAMER_PROGRAM_SERIALIZE_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/program/Sha256.h"

#include <cstdint>
#include <span>
#include <vector>

namespace gossamer {

inline constexpr uint32_t kFormatVersion = 6;

std::vector<uint8_t> save(const Program &program);

/// The program in `bytes`, which is valid in the sense of Validate.h. Damaged
/// bytes, and bytes of another origin or version, are an error.
Result<Program> load(std::span<const uint8_t> bytes);

/// The payload digest that the header of `bytes` states; the payload itself is
/// not looked at.
Result<Digest> statedDigest(std::span<const uint8_t> bytes);

} // namespace gossamer

#endif
