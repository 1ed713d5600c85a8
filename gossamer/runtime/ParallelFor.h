// How the runtime gets threads: whoever embeds it passes a ParallelFor. The
// runtime never starts threads of its own accord, and no result depends on how
// many there are.
#ifndef GOSSAMER_RUNTIME_PARALLELFOR_H
#define GOSSAMER_RUNTIME_PARALLELFOR_H

#include <cstdint>
#include <type_traits>

namespace gossamer {

class ParallelFor {
public:
  using Body = void (*)(void *context, int64_t chunk);

  virtual ~ParallelFor() = default;

  /// Calls body(context, c) once for each c in [0, chunks), in any order and on
  /// any threads, and returns when all calls have. The body must not throw.
  virtual void run(int64_t chunks, Body body, void *context) = 0;

  /// How many calls may be in progress at once, for splitting work whose result
  /// does not depend on the split.
  virtual int threads() const = 0;

  /// The same for a callable, which is not copied.
  template <typename Fn> void forEach(int64_t chunks, Fn &&fn) {
    using Callable = std::remove_reference_t<Fn>;
    run(
        chunks,
        [](void *context, int64_t chunk) {
          (*static_cast<Callable *>(context))(chunk);
        },
        const_cast<void *>(static_cast<const void *>(&fn)));
  }
};

/// Everything on the calling thread.
class SerialFor final : public ParallelFor {
public:
  void run(int64_t chunks, Body body, void *context) override {
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      body(context, chunk);
  }
  int threads() const override { return 1; }
};

} // namespace gossamer

#endif
