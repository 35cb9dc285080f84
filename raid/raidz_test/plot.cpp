// The chart of a benchmark, as SVG: small charts side by side, one a method, on one scale.
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "raid/raidz_test/bench.h"

namespace zuse::raidz_test {

namespace {

constexpr double kWidth = 300;
constexpr double kHeight = 200;
constexpr double kMargin = 60;
constexpr int kAcross = 3;
constexpr std::array kColours{"#1b6ca8", "#d1495b", "#2e8b57", "#edae49",
                              "#6a4c93", "#5c5c5c", "#00a6a6", "#8c510a"};

std::string size_name(double exponent) {
  const auto kib = static_cast<long>(std::exp2(exponent - 10));
  return kib >= 1024 ? std::to_string(kib / 1024) + "M" : std::to_string(kib) + "K";
}

}  // namespace

std::string plot(const std::vector<Measurement>& measurements) {
  std::vector<std::string> methods;
  std::vector<std::string> implementations;
  double top = 1;
  double first = 64;
  double last = 0;
  for (const Measurement& one : measurements) {
    if (std::ranges::find(methods, one.method) == methods.end()) {
      methods.push_back(one.method);
    }
    if (std::ranges::find(implementations, one.implementation) == implementations.end()) {
      implementations.push_back(one.implementation);
    }
    top = std::max(top, one.total_bandwidth);
    const double exponent = std::log2(static_cast<double>(one.block));
    first = std::min(first, exponent);
    last = std::max(last, exponent);
  }
  const double span = std::max(1.0, last - first);
  const auto rows = (static_cast<int>(methods.size()) + kAcross - 1) / kAcross;
  const double whole_width = kAcross * (kWidth + kMargin) + kMargin;
  const double whole_height = rows * (kHeight + kMargin) + 2 * kMargin;
  std::ostringstream svg;
  svg << R"(<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" width=")"
      << whole_width << R"(" height=")" << whole_height << "\">\n"
      << R"(<rect width="100%" height="100%" fill="white"/>)" << "\n";
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const double left = kMargin + static_cast<double>(m % kAcross) * (kWidth + kMargin);
    const double upper = kMargin + static_cast<double>(m / kAcross) * (kHeight + kMargin);
    svg << "<rect x=\"" << left << "\" y=\"" << upper << "\" width=\"" << kWidth << "\" height=\""
        << kHeight << "\" fill=\"none\" stroke=\"#999\"/>\n"
        << "<text x=\"" << left << "\" y=\"" << upper - 6 << "\" font-weight=\"bold\">"
        << methods[m] << "</text>\n";
    for (int tick = 0; tick <= 4; ++tick) {
      const double y = upper + kHeight * (1 - tick / 4.0);
      svg << "<text x=\"" << left - 4 << "\" y=\"" << y + 4 << "\" text-anchor=\"end\">"
          << std::round(top * tick / 4 / 1024 * 10) / 10 << "</text>\n";
    }
    for (double exponent = first; exponent <= last; exponent += 4) {
      svg << "<text x=\"" << left + kWidth * (exponent - first) / span << "\" y=\""
          << upper + kHeight + 14 << "\" text-anchor=\"middle\">" << size_name(exponent)
          << "</text>\n";
    }
    for (std::size_t i = 0; i < implementations.size(); ++i) {
      svg << "<polyline fill=\"none\" stroke=\"" << kColours[i % kColours.size()]
          << "\" stroke-width=\"1.5\" points=\"";
      for (const Measurement& one : measurements) {
        if (one.method == methods[m] && one.implementation == implementations[i]) {
          const double exponent = std::log2(static_cast<double>(one.block));
          svg << left + kWidth * (exponent - first) / span << ","
              << upper + kHeight * (1 - one.total_bandwidth / top) << " ";
        }
      }
      svg << "\"/>\n";
    }
  }
  for (std::size_t i = 0; i < implementations.size(); ++i) {
    svg << "<text x=\"" << kMargin + static_cast<double>(i) * 90 << "\" y=\"" << whole_height - 40
        << "\" fill=\"" << kColours[i % kColours.size()] << "\" font-weight=\"bold\">"
        << implementations[i] << "</text>\n";
  }
  svg << "<text x=\"" << kMargin << "\" y=\"" << whole_height - 18
      << "\">GiB/s of all columns, by bytes of data in a block</text>\n</svg>\n";
  return svg.str();
}

}  // namespace zuse::raidz_test
