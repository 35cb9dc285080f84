# zuse_library(NAME SOURCES ... USES ...): a layer, libzuse_NAME with the alias zuse::NAME.
# Without sources (headers only) it is an interface library.
function(zuse_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  if(arg_SOURCES)
    add_library(zuse_${name} STATIC ${arg_SOURCES})
    target_link_libraries(zuse_${name} PUBLIC zuse_options ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
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
