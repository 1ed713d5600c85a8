# How a target of this project is declared. Flags and the include path (the
# repository and, for generated files, the build folder) hold for every target.
#
#   add_library(GossamerProgram STATIC Save.cpp Load.cpp)
#   target_link_libraries(GossamerRuntime PUBLIC GossamerProgram Threads::Threads)
#   gossamer_add_shared_library(gossamer_torch Operators.cpp)
#   gossamer_add_unit_test(program_test ProgramTest.cpp LIBS GossamerProgram)
#
# Targets on MLIR say gossamer_use_mlir(<target>) (GossamerMlir.cmake); the torch
# operators say gossamer_use_torch(<target>) (GossamerTorch.cmake).

include_directories("${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter)
if(GOSSAMER_ASSERTIONS)
  add_compile_options(-UNDEBUG)
endif()
if(GOSSAMER_SANITIZE)
  # -fno-rtti and the vptr check exclude each other.
  add_compile_options("-fsanitize=${GOSSAMER_SANITIZE}" -fno-sanitize=vptr
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${GOSSAMER_SANITIZE}")
endif()

find_package(Threads REQUIRED)

# gossamer_add_shared_library(<name> <source>...): one of the two libraries that
# the Python package loads; it lands in <build>/lib and in the package.
function(gossamer_add_shared_library name)
  add_library(${name} SHARED ${ARGN})
  # An undefined symbol is an error here, not at load time on a user's machine.
  # Sanitised code gets its runtime from the executable.
  if(NOT GOSSAMER_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  install(TARGETS ${name} LIBRARY DESTINATION gossamer/lib COMPONENT package)
endfunction()

# gossamer_add_executable(<name> <source>...): a tool, in <build>/bin.
function(gossamer_add_executable name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endfunction()

# gossamer_add_unit_test(<name> <source>... LIBS <library>...): a googletest
# program, run by ctest under its name. Does nothing without tests.
function(gossamer_add_unit_test name)
  if(NOT GOSSAMER_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "LIBS")
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE
    ${ARG_LIBS} GTest::gtest GTest::gtest_main Threads::Threads)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit)
endfunction()

# gossamer_add_stages(<parent> <folder>...): each folder that has a build file.
function(gossamer_add_stages parent)
  foreach(stage IN LISTS ARGN)
    if(EXISTS "${PROJECT_SOURCE_DIR}/${parent}/${stage}/CMakeLists.txt")
      add_subdirectory("${PROJECT_SOURCE_DIR}/${parent}/${stage}"
        "${PROJECT_BINARY_DIR}/${parent}/${stage}")
    endif()
  endforeach()
endfunction()
