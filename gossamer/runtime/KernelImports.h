// The functions that kernel code may call.
#ifndef GOSSAMER_RUNTIME_KERNELIMPORTS_H
#define GOSSAMER_RUNTIME_KERNELIMPORTS_H

#include <string_view>

namespace gossamer {

/// The address of `name`, or null when kernels may not call it.
void *kernelImport(std::string_view name);

} // namespace gossamer

#endif
