# What most sources include, by weight.
set(ZUSE_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <expected> <filesystem> <fstream> <functional>
  <map> <memory> <mutex> <optional> <random> <ranges> <span> <sstream> <string> <thread> <unordered_map> <vector>
  <spdlog/spdlog.h>)

# zuse_library(NAME SOURCES ... USES ...): a layer, libzuse_NAME with the alias zuse::NAME.
# Without sources (headers only) it is an interface library.
function(zuse_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  if(arg_SOURCES)
    add_library(zuse_${name} STATIC ${arg_SOURCES})
    target_link_libraries(zuse_${name} PUBLIC zuse_options ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
    if(ZUSE_PRECOMPILE AND NOT name STREQUAL raid)
      target_precompile_headers(zuse_${name} PRIVATE ${ZUSE_COMMON_HEADERS})
    endif()
  else()
    add_library(zuse_${name} INTERFACE)
    target_link_libraries(zuse_${name} INTERFACE zuse_options ${arg_USES})
  endif()
  add_library(zuse::${name} ALIAS zuse_${name})
endfunction()

# zuse_test(NAME LABEL label SOURCES ... USES ...): a GoogleTest program; each test is one ctest test.
function(zuse_test name)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES;USES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE zuse_options ${arg_USES} zuse::test_support GTest::gmock GTest::gtest_main)
  # What a test spends its time on is the code under test; optimising the test doubles the build.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(ZUSE_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM zuse_test_support)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# zuse_bench(NAME SOURCES ... USES ...): a Google Benchmark program; ctest only proves that it runs.
function(zuse_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE zuse_options ${arg_USES} benchmark::benchmark_main)
  add_test(NAME ${name}.smoke COMMAND ${name} --benchmark_min_time=0.001)
  set_tests_properties(${name}.smoke PROPERTIES LABELS bench-smoke)
endfunction()
