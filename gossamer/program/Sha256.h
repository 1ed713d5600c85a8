// SHA-256 (FIPS 180-4), for the content digest of saved programs.
#ifndef GOSSAMER_PROGRAM_SHA256_H
#define GOSSAMER_PROGRAM_SHA256_H

#include <array>
#include <cstdint>
#include <span>

namespace gossamer {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::span<const uint8_t> bytes);

} // namespace gossamer

#endif
