#include "gossamer/codegen/Report.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace gossamer::codegen;

FileLineColLoc gossamer::codegen::userLocation(Location location) {
  FileLineColLoc found;
  location->walk([&](Location part) {
    found = dyn_cast<FileLineColLoc>(part);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

static void record(const Diagnostic &diagnostic, CompileError &error) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error ||
      !error.text.empty())
    return;
  error.text = diagnostic.str();
  for (const Diagnostic &note : diagnostic.getNotes())
    error.text += "; " + note.str();
  if (FileLineColLoc location = userLocation(diagnostic.getLocation())) {
    error.file = location.getFilename().str();
    error.line = location.getLine();
  }
}

ErrorCollector::ErrorCollector(MLIRContext &context, CompileError &error)
    : handler(&context, [&error](Diagnostic &diagnostic) {
        record(diagnostic, error);
        return success();
      }) {}

namespace {

class JsonLines : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit JsonLines(std::string &to) : text(to) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    llvm::json::Object line{{"pass", remark.getRemarkName()},
                            {"kind", remark.getRemarkTypeString()}};
    std::string message;
    for (const auto &argument : remark.getArgs()) {
      if (argument.key == "Remark")
        message += argument.val;
      else
        line[llvm::StringRef(argument.key).lower()] = argument.val;
    }
    line["message"] = message;
    if (FileLineColLoc location = userLocation(remark.getLocation())) {
      line["file"] = location.getFilename().str();
      line["line"] = location.getLine();
    }
    llvm::raw_string_ostream stream(text);
    stream << llvm::json::Value(std::move(line)) << '\n';
  }

private:
  std::string &text;
};

} // namespace

void gossamer::codegen::collectRemarks(MLIRContext &context,
                                       std::string &remarks) {
  remark::RemarkCategories all{".*", ".*", ".*", ".*", ".*"};
  // Can only fail for a streamer that writes a file.
  LogicalResult enabled = remark::enableOptimizationRemarks(
      context, std::make_unique<JsonLines>(remarks),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), all);
  assert(succeeded(enabled));
  (void)enabled;
}
