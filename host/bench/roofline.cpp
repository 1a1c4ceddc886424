#include "host/bench/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/base/utf8.h"

namespace bonsai::bench {
namespace {

constexpr double kWidth = 900, kHeight = 600;
constexpr double kLeft = 110, kRight = 870, kTop = 90, kBottom = 530;  // of the plot
constexpr double kFontSize = 14;
constexpr std::string_view kBold = R"(stroke="#1f5fa8" stroke-width="2.5")";
constexpr std::string_view kDashed = R"(stroke="#1f5fa8" stroke-dasharray="6 4")";

// "1 G", "100 M", "0.1": a power of ten with the SI prefix that leaves 1 to 3 digits.
std::string power_of_ten(int exponent) {
  constexpr std::array<std::string_view, 7> kPrefixes = {"", " k", " M", " G", " T", " P", " E"};
  if (exponent < 0) return fmt::format("{:.{}f}", std::pow(10, exponent), -exponent);
  const auto prefix = std::min<size_t>(static_cast<size_t>(exponent) / 3, kPrefixes.size() - 1);
  return fmt::format("{:.0f}{}", std::pow(10, exponent - 3 * static_cast<int>(prefix)), kPrefixes[prefix]);
}

// Names come from files and backends: what means something to XML is escaped, control characters and text that is not
// UTF-8 become '?'.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : find_invalid_utf8(text) == std::string_view::npos ? text : "?") {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else
      result += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return result;
}

// Whole decades of one quantity, along `from` to `to` on the paper.
struct Axis {
  int first, last;  // exponents of ten
  double from, to;

  double at(double value) const { return from + (to - from) * (std::log10(value) - first) / (last - first); }
  double at_exponent(int exponent) const { return from + (to - from) * (exponent - first) / (last - first); }
  double least() const { return std::pow(10, first); }
  double most() const { return std::pow(10, last); }
};

// Half a decade of room on both sides, and two decades at least.
Axis make_axis(double least, double most, double from, double to) {
  Axis axis{static_cast<int>(std::floor(std::log10(least) - 0.5)), static_cast<int>(std::ceil(std::log10(most) + 0.5)),
            from, to};
  axis.last = std::max(axis.last, axis.first + 2);
  return axis;
}

// Labels of the highest go above, all others below: they do not meet.
template <class T>
bool is_highest(const std::vector<T> &all, double T::*height, const T &one) {
  return std::all_of(all.begin(), all.end(), [&](const T &other) { return other.*height <= one.*height; });
}

class Picture {
 public:
  explicit Picture(const Roofline &roofline) : roofline_(roofline) {
    const auto &points = roofline.points;
    double left = points.front().operations_per_byte, right = left;
    double low = points.front().operations_per_second, high = low;
    for (const Roofline::Point &point : points) {
      left = std::min(left, point.operations_per_byte);
      right = std::max(right, point.operations_per_byte);
      low = std::min(low, point.operations_per_second);
      high = std::max(high, point.operations_per_second);
    }
    for (const Roofline::Roof &roof : roofline.roofs) high = std::max(high, roof.bytes_per_second * left);
    for (const Roofline::Ceiling &ceiling : roofline.ceilings) {
      low = std::min(low, ceiling.operations_per_second);
      high = std::max(high, ceiling.operations_per_second);
      if (roofline.roofs.empty()) continue;
      left = std::min(left, ridge(ceiling));
      right = std::max(right, ridge(ceiling));
    }
    x_ = make_axis(left, right, kLeft, kRight);
    y_ = make_axis(low, high, kBottom, kTop);
  }

  std::string draw() {
    add(R"(<?xml version="1.0" encoding="UTF-8"?>)");
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(font-family="sans-serif" font-size="{2}">)",
        kWidth, kHeight, kFontSize);
    add("<title>{}</title>", escaped(roofline_.title));
    add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
    text(kLeft, 36, "start", roofline_.title, R"( font-size="20" font-weight="bold")");
    text(kLeft, 62, "start", roofline_.subtitle, R"( fill="#555555")");
    draw_grid();
    for (size_t i = 0; i < roofline_.roofs.size(); ++i) draw_roof(roofline_.roofs[i], i);
    for (size_t i = 0; i < roofline_.ceilings.size(); ++i) draw_ceiling(roofline_.ceilings[i], i);
    for (size_t i = 0; i < roofline_.points.size(); ++i) draw_point(roofline_.points[i], i);
    add("</svg>");
    return std::move(svg_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args &&...args) {
    svg_ += fmt::format(format, std::forward<Args>(args)...);
    svg_ += '\n';
  }

  void text(double x, double y, std::string_view anchor, std::string_view words, std::string_view attributes = "") {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor, attributes, escaped(words));
  }

  void line(double x1, double y1, double x2, double y2, std::string_view attributes) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", x1, y1, x2, y2, attributes);
  }

  void draw_grid() {
    constexpr std::string_view kGrid = R"(stroke="#dddddd")";
    for (int exponent = x_.first; exponent <= x_.last; ++exponent) {
      const double x = x_.at_exponent(exponent);
      line(x, kTop, x, kBottom, kGrid);
      text(x, kBottom + 22, "middle", power_of_ten(exponent));
    }
    for (int exponent = y_.first; exponent <= y_.last; ++exponent) {
      const double y = y_.at_exponent(exponent);
      line(kLeft, y, kRight, y, kGrid);
      text(kLeft - 8, y + 5, "end", power_of_ten(exponent));
    }
    add(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#333333"/>)", kLeft, kTop, kRight - kLeft,
        kBottom - kTop);
    text((kLeft + kRight) / 2, kBottom + 52, "middle", "operations per byte");
    const double middle = (kTop + kBottom) / 2;
    text(34, middle, "middle", "operations per second", fmt::format(R"svg( transform="rotate(-90 34 {})")svg", middle));
  }

  // Where the first roof meets a ceiling, in operations per byte.
  double ridge(const Roofline::Ceiling &ceiling) const {
    return ceiling.operations_per_second / roofline_.roofs.front().bytes_per_second;
  }

  // What the first roof ends at; the others, which no ceiling belongs to, leave the plot.
  double top_of_roof(size_t index) const {
    if (index > 0 || roofline_.ceilings.empty()) return y_.most();
    double highest = 0;
    for (const Roofline::Ceiling &ceiling : roofline_.ceilings)
      highest = std::max(highest, ceiling.operations_per_second);
    return highest;
  }

  // From where it enters the plot, on the left or from below, to where it ends or leaves, on the right or above.
  void draw_roof(const Roofline::Roof &roof, size_t index) {
    const double begin = std::max(x_.least(), y_.least() / roof.bytes_per_second);
    const double end = std::min(x_.most(), top_of_roof(index) / roof.bytes_per_second);
    if (begin >= end) return;
    const double x1 = x_.at(begin), y1 = y_.at(begin * roof.bytes_per_second);
    const double x2 = x_.at(end), y2 = y_.at(end * roof.bytes_per_second);
    line(x1, y1, x2, y2, index == 0 ? kBold : kDashed);
    const double x = x1 + 0.97 * (x2 - x1), y = y1 + 0.97 * (y2 - y1);
    const double degrees = std::atan2(y2 - y1, x2 - x1) * 180 / std::acos(-1.0);
    add(R"svg(<g transform="translate({:.1f} {:.1f}) rotate({:.1f})">)svg", x, y, degrees);
    text(0, is_highest(roofline_.roofs, &Roofline::Roof::bytes_per_second, roof) ? -8 : 18, "end", roof.label,
         R"( fill="#1f5fa8")");
    add("</g>");
  }

  // From the first roof, or from the left where there is none, to the right.
  void draw_ceiling(const Roofline::Ceiling &ceiling, size_t index) {
    const double y = y_.at(ceiling.operations_per_second);
    line(roofline_.roofs.empty() ? kLeft : x_.at(ridge(ceiling)), y, kRight, y, index == 0 ? kBold : kDashed);
    const bool above = is_highest(roofline_.ceilings, &Roofline::Ceiling::operations_per_second, ceiling);
    text(kRight - 8, above ? y - 8 : y + 18, "end", ceiling.label, R"( fill="#1f5fa8")");
  }

  // The label is beside the point, on the side that has more room; below it, but for the highest point's.
  void draw_point(const Roofline::Point &point, size_t index) {
    constexpr std::array<std::string_view, 4> kColors = {"#c0392b", "#1e8449", "#7d3c98", "#b9770e"};
    const std::string_view color = kColors[index % kColors.size()];
    const double x = x_.at(point.operations_per_byte), y = y_.at(point.operations_per_second);
    add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="6" fill="{}"/>)", x, y, color);
    const bool to_the_right = x < (kLeft + kRight) / 2;
    const bool above = is_highest(roofline_.points, &Roofline::Point::operations_per_second, point);
    text(to_the_right ? x + 12 : x - 12, above ? y - 12 : y + 20, to_the_right ? "start" : "end", point.label,
         fmt::format(R"( fill="{}")", color));
  }

  const Roofline &roofline_;
  Axis x_{}, y_{};
  std::string svg_;
};

}  // namespace

std::string to_svg(const Roofline &roofline) { return Picture(roofline).draw(); }

}  // namespace bonsai::bench
