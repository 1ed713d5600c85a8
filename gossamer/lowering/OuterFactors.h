// Rows that are outer products: of a lookup in a table of matrices, the
// gradient of the matrix that an edge has is
//
//   rows[r][i, o] = left[r][i] * right[r][o]
//
// whatever the two factors are computed from. Their sum by number needs the
// factors only.
#ifndef GOSSAMER_LOWERING_OUTERFACTORS_H
#define GOSSAMER_LOWERING_OUTERFACTORS_H

#include "gossamer/lowering/Expr.h"

#include <optional>

namespace gossamer::lowering {

struct OuterFactors {
  Expr left, right; // each stored row-major from the start of its row
};

/// The factors of `expr`, which has one result, stored row-major: its outer
/// dims are those of one operand of a product, its inner dims those of the
/// other. Nothing for other expressions, and where a factor is so narrow that
/// products are cheaper to add than factors to keep.
std::optional<OuterFactors> outerFactors(const Expr &expr);

} // namespace gossamer::lowering

#endif
