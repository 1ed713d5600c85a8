# MLIR and LLVM 22, as Debian packages them: the shared libraries libMLIR and
# libLLVM, without exceptions and without RTTI.
#
#   set(LLVM_TARGET_DEFINITIONS MpOps.td)
#   mlir_tablegen(MpOps.h.inc -gen-op-decls)       in the build tree, beside MpOps.td
#   add_public_tablegen_target(GossamerIRTableGen)
#   add_library(GossamerIR STATIC MpDialect.cpp)
#   gossamer_use_mlir(GossamerIR)
#   add_dependencies(GossamerIR GossamerIRTableGen)

if(NOT MLIR_DIR AND EXISTS "/usr/lib/llvm-22/lib/cmake/mlir")
  set(MLIR_DIR "/usr/lib/llvm-22/lib/cmake/mlir" CACHE PATH "Folder of MLIRConfig.cmake")
endif()
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "found MLIR ${LLVM_VERSION} in ${MLIR_DIR}, but 22 is required")
endif()

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# A property of the folder, because mlir-tblgen takes its include path from there.
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})

# MLIR tells traits and passes apart by the addresses of inline variables, which
# must be the same ones as in libMLIR. Holds for all folders added from here on.
set(CMAKE_CXX_VISIBILITY_PRESET default)
set(CMAKE_VISIBILITY_INLINES_HIDDEN OFF)

# An installed library finds LLVM where the build found it.
set(CMAKE_INSTALL_RPATH "${LLVM_LIBRARY_DIR}")

add_library(gossamer_mlir INTERFACE)
target_compile_options(gossamer_mlir INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti> $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
target_compile_definitions(gossamer_mlir INTERFACE
  _GNU_SOURCE __STDC_CONSTANT_MACROS __STDC_FORMAT_MACROS __STDC_LIMIT_MACROS)
target_link_libraries(gossamer_mlir INTERFACE MLIR LLVM)

# Compiles a target against MLIR and links it with the two shared libraries.
# Everything that links the target does so too.
function(gossamer_use_mlir target)
  target_link_libraries(${target} PUBLIC gossamer_mlir)
endfunction()
