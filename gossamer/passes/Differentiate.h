// Which half of a differentiated function a program is.
#ifndef GOSSAMER_PASSES_DIFFERENTIATE_H
#define GOSSAMER_PASSES_DIFFERENTIATE_H

namespace gossamer {

/// Forward returns the results, and the rows that it saves; backward takes them
/// and gradients, and returns gradients.
enum class Half { Forward, Backward };

} // namespace gossamer

#endif
