// Which variant of a program runs.
#ifndef GOSSAMER_RUNTIME_VARIANTS_H
#define GOSSAMER_RUNTIME_VARIANTS_H

#include "gossamer/program/Program.h"
#include "gossamer/runtime/Call.h"

#include <cstddef>
#include <optional>
#include <span>

namespace gossamer {

/// The number of the variant that costs least on these graphs, of which only
/// the sizes are read: 0 for `program` itself, and for the first of equals.
/// A `measured` number wins over costs, and a forced one over both where there
/// is such a variant.
size_t variantFor(const Program &program, std::span<const GraphArrays> graphs,
                  std::optional<size_t> measured = {});

/// Forces the number for all programs of the process from now on.
void forceVariant(std::optional<size_t> number);

} // namespace gossamer

#endif
