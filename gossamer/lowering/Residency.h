// Which values of a kernel are kept in memory, and in which sweep each edge
// value is computed.
#ifndef GOSSAMER_LOWERING_RESIDENCY_H
#define GOSSAMER_LOWERING_RESIDENCY_H

#include "gossamer/lowering/Plan.h"

#include "llvm/ADT/DenseSet.h"

#include <limits>

namespace gossamer::lowering {

Level levelOf(mlir::Value value);

class Residency {
public:
  /// `alwaysKept`: values that are kept whatever the rules say.
  Residency(mp::KernelOp kernel, const llvm::DenseSet<mlir::Value> &alwaysKept);

  /// True when `value` is stored by a stage of its own.
  bool isKept(mlir::Value value) const { return kept.contains(value); }
  /// False for a value that nothing reads.
  bool isUsed(mlir::Value value) const {
    return uses.lookup(value).sink != nullptr;
  }
  /// The phase in which a value is computed.
  unsigned phaseOf(mlir::Value value) const { return phases.lookup(value); }
  /// The last sweep that reads a kept edge value.
  unsigned lastSweep(mlir::Value value) const {
    return uses.lookup(value).last;
  }

private:
  /// Who evaluates a value.
  struct Use {
    /// The loop nest: its stage, named by one of its ops, or for the two nests
    /// of an outer product the operand.
    const void *sink = nullptr;
    bool manySinks = false;
    bool repeated = false;   // once per element of a larger shape
    bool outerLevel = false; // by a stage that runs more often
    unsigned first = std::numeric_limits<unsigned>::max(); // sweeps
    unsigned last = 0;

    void merge(const Use &other);
  };

  void assignPhases(mlir::Operation *op);
  void collectUses(mlir::Operation *op);
  Use useBy(mlir::OpOperand &operand);
  bool decide(mlir::Operation *op, const Use &use) const;
  void forceLinearOperand(mlir::Value operand);

  llvm::DenseSet<mlir::Value> forced;
  llvm::DenseSet<mlir::Value> kept;
  llvm::DenseMap<mlir::Value, unsigned> phases;
  llvm::DenseMap<mlir::Value, Use> uses;
};

} // namespace gossamer::lowering

#endif
