// mp.kernel: its text form, and what its body may hold.

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer::mp;

// mp.kernel over #mp.rows<0, node> by dst (%a = %x, ...) : (types) -> (types) {
// mp.kernel over params (%a = %w, ...) : (types) -> (types) {
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parser.parseKeyword("over"))
    return failure();
  if (failed(parser.parseOptionalKeyword("params"))) {
    RowsAttr rows;
    StringRef word;
    SMLoc location;
    if (parser.parseAttribute(rows) || parser.parseKeyword("by") ||
        parser.getCurrentLocation(&location) || parser.parseKeyword(&word))
      return failure();
    std::optional<End> end = symbolizeEnd(word);
    if (!end)
      return parser.emitError(location, "expects src or dst after 'by'");
    result.addAttribute(getRowsAttrName(result.name), rows);
    result.addAttribute(getEndAttrName(result.name),
                        EndAttr::get(parser.getContext(), *end));
  }
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  auto parsePair = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) ||
                   parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  };
  FunctionType type;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     parsePair) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type))
    return failure();
  if (type.getNumInputs() != arguments.size())
    return parser.emitError(parser.getCurrentLocation(), "expects ")
           << arguments.size() << " input types";
  for (auto [argument, input] : llvm::zip(arguments, type.getInputs()))
    argument.type = input;
  if (parser.resolveOperands(operands, type.getInputs(),
                             parser.getCurrentLocation(), result.operands))
    return failure();
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << " over ";
  if (RowsAttr rows = getRowsAttr())
    printer << rows << " by " << stringifyEnd(getEnd()) << " (";
  else
    printer << "params (";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          printer << std::get<0>(pair) << " = "
                                  << std::get<1>(pair);
                        });
  printer << ")";
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {getRowsAttrName(), getEndAttrName()});
  printer << " : ";
  printer.printFunctionalType(getOperation());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

/// A sum over all rows is complete only after the last one: nothing in the body
/// reads it.
static LogicalResult verifyTotal(KernelOp kernel, Operation &op) {
  RowsAttr rows = rowsOf(op.getOperand(0));
  if (!kernel.getRowsAttr() ||
      (rows != kernel.getRowsAttr() && rows.getKind() != RowKind::Edge))
    return op.emitOpError("sums rows that its kernel does not visit: ")
           << op.getOperand(0).getType();
  if (op.use_empty() || (op.hasOneUse() && isa<YieldOp>(*op.user_begin())))
    return success();
  return op.emitOpError("is complete after the last row only, so it is yielded "
                        "once and not read");
}

/// `op` may stand in the body of `kernel`.
static LogicalResult verifyBodyOp(KernelOp kernel, Operation &op) {
  RowsAttr rows = kernel.getRowsAttr();
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(op.getOperandTypes()),
                                llvm::to_vector(op.getResultTypes()))) {
    RowsAttr has = rowsOf(type);
    if (has && (!rows || has.getGraph() != rows.getGraph()))
      return op.emitOpError("has rows that its kernel does not visit: ")
             << type;
  }
  if (auto gather = dyn_cast<GatherOp>(op)) {
    if (gather.getEnd() != kernel.getEnd() && gather.getNodes().getDefiningOp())
      return gather.emitOpError(
          "reads rows at the other end that this kernel computes");
    return success();
  }
  if (isa<SumRowsOp, ContractRowsOp, SumByOp>(op))
    return verifyTotal(kernel, op);
  auto end = op.getAttrOfType<EndAttr>("end");
  if (end && end.getValue() != kernel.getEnd())
    return op.emitOpError("expects ")
           << stringifyEnd(kernel.getEnd()) << ", the end of its kernel";
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getNumArguments() != getNumOperands())
    return emitOpError("expects one block argument per input");
  for (auto [argument, input] : llvm::zip(body.getArguments(), getInputs()))
    if (argument.getType() != input.getType())
      return emitOpError("expects block argument of type ")
             << input.getType() << ", but found " << argument.getType();
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getOperandTypes() != getResultTypes())
    return emitOpError("expects to yield its result types");
  for (Operation &op : body.without_terminator())
    if (failed(verifyBodyOp(*this, op)))
      return failure();
  return success();
}
