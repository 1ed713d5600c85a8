// Cuts the rows of a kernel into chunks of about equal work.
//
// The work of a row is its edges plus `rowWork`. Number and borders of the
// chunks depend on the graph alone, never on the threads, so a kernel sees the
// same ranges on every machine.
#ifndef GOSSAMER_RUNTIME_PARTITION_H
#define GOSSAMER_RUNTIME_PARTITION_H

#include <cstdint>

namespace gossamer {

class Partition {
public:
  /// Rows that cost the same.
  static Partition ofRows(int64_t rows, int64_t rowWork = 1);

  /// Rows whose edges are offsets[r] .. offsets[r + 1]; int64 when `wide`.
  static Partition ofEdges(const void *offsets, bool wide, int64_t rows,
                           int64_t rowWork = 1);

  int64_t chunks() const { return count; }

  /// The first row of chunk `chunk`; border(chunks()) is the number of rows.
  int64_t border(int64_t chunk) const;

private:
  Partition(const void *offsets, bool wide, int64_t rows, int64_t rowWork);

  int64_t workBefore(int64_t row) const;

  const void *offsets;
  bool wide;
  int64_t rows;
  int64_t rowWork;
  int64_t work;
  int64_t count;
};

} // namespace gossamer

#endif
