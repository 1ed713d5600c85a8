# torch's headers and libtorch_cpu, of the torch that Python imports. Only the
# stable ABI may be used, so a build runs with every torch since 2.11.
#
#   gossamer_use_torch(gossamer_torch)

if(NOT GOSSAMER_TORCH_DIR)
  find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "${Python3_EXECUTABLE} has no torch: install it, "
      "name another Python with -DPython3_EXECUTABLE, or build with -DGOSSAMER_TORCH=OFF")
  endif()
  set(GOSSAMER_TORCH_DIR "${torch_dir}" CACHE PATH "Folder of the torch package")
endif()
find_library(GOSSAMER_TORCH_CPU torch_cpu
  PATHS "${GOSSAMER_TORCH_DIR}/lib" NO_DEFAULT_PATH REQUIRED)

add_library(gossamer_torch_api INTERFACE)
target_include_directories(gossamer_torch_api SYSTEM INTERFACE
  "${GOSSAMER_TORCH_DIR}/include" "${GOSSAMER_TORCH_DIR}/include/torch/csrc/api/include")
# The oldest torch whose stable ABI we may call: 2.11.
target_compile_definitions(gossamer_torch_api INTERFACE
  "TORCH_TARGET_VERSION=((2ULL << 56) | (11ULL << 48))")
target_link_libraries(gossamer_torch_api INTERFACE "${GOSSAMER_TORCH_CPU}")

# Compiles a target against torch's stable ABI. The path of libtorch_cpu is not
# kept: whoever loads the target has torch loaded.
function(gossamer_use_torch target)
  target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:gossamer_torch_api>")
endfunction()
