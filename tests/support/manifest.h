// A file system as rows of text, in the form of the manifests beside the pools that OpenZFS made
// (tests/fixtures/openzfs): one row a path, with every attribute and a digest of the contents.
#pragma once

#include <map>
#include <string>

#include "fs/dataset/dataset.h"
#include "fs/posix/file_system.h"

namespace zuse::test {

// Rows by path (relative to the root, "." for the root itself). The first columns of a row are the
// label and the path. errors: what reading answers, with the path.
Result<std::map<std::string, std::string>> manifest_of(posix::FileSystem& files,
                                                       const std::string& label);

// The row of a volume.
Result<std::string> volume_row(dataset::Dataset& dataset, const std::string& label);

}  // namespace zuse::test
