#include "fs/format/scan_phys.h"

#include <algorithm>
#include <string>

namespace zuse::format {

Result<ScanPhys> decode_scan(std::span<const std::uint64_t> words) {
  if (words.empty()) {
    return fail(Errc::corrupt, "scan: no state");
  }
  std::array<std::uint64_t, kScanWords> word{};
  std::copy_n(words.begin(), std::min(words.size(), word.size()), word.begin());
  if (word[0] > static_cast<std::uint64_t>(ScanFunction::error_scrub)) {
    return fail(Errc::unsupported, "scan function " + std::to_string(word[0]));
  }
  if (word[1] > static_cast<std::uint64_t>(ScanState::error_scrubbing)) {
    return fail(Errc::unsupported, "scan state " + std::to_string(word[1]));
  }
  return ScanPhys{.function = static_cast<ScanFunction>(word[0]),
                  .state = static_cast<ScanState>(word[1]),
                  .queue = word[2],
                  .min_txg = word[3],
                  .max_txg = word[4],
                  .dataset_min_txg = word[5],
                  .dataset_max_txg = word[6],
                  .start_time = word[7],
                  .end_time = word[8],
                  .to_examine = word[9],
                  .examined = word[10],
                  .skipped = word[11],
                  .processed = word[12],
                  .errors = word[13],
                  .ddt_class_max = word[14],
                  .ddt_bookmark = {word[15], word[16], word[17], word[18]},
                  .objset = word[19],
                  .object = word[20],
                  .level = word[21],
                  .block = word[22],
                  .flags = word[23]};
}

std::array<std::uint64_t, kScanWords> encode_scan(const ScanPhys& scan) {
  return {static_cast<std::uint64_t>(scan.function),
          static_cast<std::uint64_t>(scan.state),
          scan.queue,
          scan.min_txg,
          scan.max_txg,
          scan.dataset_min_txg,
          scan.dataset_max_txg,
          scan.start_time,
          scan.end_time,
          scan.to_examine,
          scan.examined,
          scan.skipped,
          scan.processed,
          scan.errors,
          scan.ddt_class_max,
          scan.ddt_bookmark[0],
          scan.ddt_bookmark[1],
          scan.ddt_bookmark[2],
          scan.ddt_bookmark[3],
          scan.objset,
          scan.object,
          scan.level,
          scan.block,
          scan.flags};
}

}  // namespace zuse::format
