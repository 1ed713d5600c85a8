"""How lit runs the tests of the compiler. `config` and `lit_config` come from lit."""

import os

import lit.formats

config.name = "gossamer"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)

# gossamer-opt and its siblings first, then FileCheck, not, mlir-opt.
config.environment["PATH"] = os.pathsep.join(
    [config.gossamer_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
)
config.substitutions.append(("%gossamer_lib_dir", config.gossamer_lib_dir))
