// The program zuse; see app.h.
#include <iostream>

#include "fs/cli/app.h"

int main(int argc, char** argv) {
  return zuse::cli::run(argc, argv, std::cout, std::cerr);
}
