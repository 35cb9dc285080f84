#pragma once

#include <optional>
#include <span>

#include "fs/object/objset.h"

namespace zuse::dataset {

// Reads the owner out of a file's bonus area; nullopt for objects that are not files.
std::optional<object::ObjectOwner> file_owner(format::ObjectType bonus_type,
                                              std::span<const std::byte> bonus);

}  // namespace zuse::dataset
