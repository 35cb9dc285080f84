#include "vdev/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <mutex>
#include <vector>

namespace zuse {
namespace {

struct State {
  std::mutex mutex;
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  spdlog::level::level_enum level = spdlog::level::warn;
  std::vector<std::shared_ptr<spdlog::logger>> loggers;
};

State& state() {
  static State* const instance = new State;  // loggers are used until the very end
  return *instance;
}

}  // namespace

spdlog::logger& layer_log(const char* layer) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& logger : s.loggers) {
    if (logger->name() == layer) {
      return *logger;
    }
  }
  auto logger = std::make_shared<spdlog::logger>(layer, s.sinks.begin(), s.sinks.end());
  logger->set_level(s.level);
  logger->flush_on(spdlog::level::warn);
  s.loggers.push_back(logger);
  return *logger;
}

void configure_log(const std::string& path, const std::string& level) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.level = spdlog::level::from_str(level);
  if (!path.empty()) {
    s.sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  }
  for (const auto& logger : s.loggers) {
    logger->sinks() = s.sinks;
    logger->set_level(s.level);
  }
}

}  // namespace zuse
