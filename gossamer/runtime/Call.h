// One call of a program: what the caller hands over, and whether it fits.
#ifndef GOSSAMER_RUNTIME_CALL_H
#define GOSSAMER_RUNTIME_CALL_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/Plan.h"
#include "gossamer/runtime/TensorView.h"

#include <cstdint>
#include <span>

namespace gossamer {

/// The edges of each row of a node set; all empty when the program does not
/// visit edges that way.
struct EdgeArrays {
  TensorView offsets;
  TensorView neighbors;
  TensorView edgeIds;
};

/// A graph argument. Neighbors and edge ids are trusted to be in range, as
/// buildCsr makes them; sizes, offsets and degrees are checked.
struct GraphArrays {
  EdgeArrays in;  // by destination
  EdgeArrays out; // by source
  int64_t numSrc = 0;
  int64_t numDst = 0;
  int64_t numEdges = 0;
  int64_t maxInDegree = 0;
  int64_t maxOutDegree = 0;

  const EdgeArrays &edges(VisitBy by) const {
    return by == VisitBy::Dst ? in : out;
  }
  int64_t maxDegree(VisitBy by) const {
    return by == VisitBy::Dst ? maxInDegree : maxOutDegree;
  }
};

/// Rows of a row set; one for RowSet::None.
int64_t rowCount(RowSet rows, const GraphArrays &graph);

/// Which edge arrays of graph argument `graph` some kernel visits.
bool visitsEdges(const Program &program, uint32_t graph, VisitBy by);

/// Whether graphs and inputs fit the program. Inputs may have any strides;
/// those that no step of the plan reads may be anything.
Status checkCall(const Program &program, const Plan &plan,
                 std::span<const GraphArrays> graphs,
                 std::span<const TensorView> inputs);

} // namespace gossamer

#endif
