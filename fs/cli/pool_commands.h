// The subcommands of `zuse pool`, each a function that adds itself to the parser. Private to
// fs/cli.
#pragma once

#include "fs/cli/app.h"

namespace zuse::cli {

void add_create(CLI::App& parent, Context& context);
void add_import(CLI::App& parent, Context& context);
void add_export(CLI::App& parent, Context& context);
void add_destroy(CLI::App& parent, Context& context);
void add_status(CLI::App& parent, Context& context);
void add_pool_list(CLI::App& parent, Context& context);
void add_pool_get(CLI::App& parent, Context& context);
void add_pool_set(CLI::App& parent, Context& context);
void add_scrub(CLI::App& parent, Context& context);
void add_clear(CLI::App& parent, Context& context);
void add_sync(CLI::App& parent, Context& context);
void add_history(CLI::App& parent, Context& context);
void add_labelclear(CLI::App& parent, Context& context);
void add_check(CLI::App& parent, Context& context);

// The pools named, or all that are served. Unknown names are reported on err; `failed` is then set.
std::vector<std::string> chosen_pools(Context& context, const std::vector<std::string>& named,
                                      bool& failed);

}  // namespace zuse::cli
