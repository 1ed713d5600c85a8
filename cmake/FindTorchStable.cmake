# Headers and library of torch's stable ABI, from the torch package of the Python
# interpreter that CMake finds (Python_EXECUTABLE, Python_ROOT_DIR or an active
# virtual environment choose another). Importing torch takes seconds, so the
# package is located, not imported.
#
# Gives the target TorchStable::TorchStable, and TorchStable_ROOT.

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)

if(NOT TorchStable_ROOT)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _torch_root
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(TorchStable_ROOT "${_torch_root}" CACHE PATH "folder of the torch Python package" FORCE)
endif()

find_path(TorchStable_INCLUDE_DIR torch/csrc/stable/library.h
  PATHS "${TorchStable_ROOT}/include" NO_DEFAULT_PATH)
find_library(TorchStable_LIBRARY torch_cpu
  PATHS "${TorchStable_ROOT}/lib" NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchStable
  REQUIRED_VARS TorchStable_LIBRARY TorchStable_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "no torch (2.10 or newer) in the Python environment of ${Python_EXECUTABLE}")

if(TorchStable_FOUND AND NOT TARGET TorchStable::TorchStable)
  add_library(TorchStable::TorchStable UNKNOWN IMPORTED)
  set_target_properties(TorchStable::TorchStable PROPERTIES
    IMPORTED_LOCATION "${TorchStable_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TorchStable_INCLUDE_DIR}"
    # The oldest torch whose stable ABI has everything used here.
    INTERFACE_COMPILE_DEFINITIONS "TORCH_TARGET_VERSION=0x020a000000000000")
endif()
