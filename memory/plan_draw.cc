#include "tessera/memory/plan_draw.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace tessera {
namespace {

struct Frame {
  int64_t first_time = 0;
  int64_t last_time = 1;
  int64_t bytes = 1;
};

bool drawn(const Interval& buffer) { return buffer.size > 0 && buffer.lower < buffer.upper; }

Frame frame_of(const Problem& problem, const Plan& plan) {
  Frame frame;
  bool first = true;
  for (const Interval& buffer : problem.buffers) {
    if (!drawn(buffer)) continue;
    frame.first_time = first ? buffer.lower : std::min(frame.first_time, buffer.lower);
    frame.last_time = first ? buffer.upper : std::max(frame.last_time, buffer.upper);
    first = false;
  }
  frame.bytes = std::max<int64_t>(plan.bytes, 1);
  return frame;
}

// The parts of a lifetime between its gaps.
std::vector<Gap> live_parts(const Interval& buffer) {
  std::vector<Gap> parts;
  int64_t from = buffer.lower;
  for (const Gap& gap : buffer.gaps) {
    if (from < gap.lower) parts.push_back({from, gap.lower});
    from = gap.upper;
  }
  if (from < buffer.upper) parts.push_back({from, buffer.upper});
  return parts;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ')
      result += c;
  }
  return result;
}

}  // namespace

std::string draw_plan_text(const Problem& problem, const Plan& plan, int columns, int rows) {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  columns = std::clamp(columns, 1, 1000);
  rows = std::clamp(rows, 1, 1000);
  const Frame frame = frame_of(problem, plan);
  const double step = static_cast<double>(frame.last_time - frame.first_time) / columns;
  const double slice = static_cast<double>(frame.bytes) / rows;
  std::vector<std::string> lines(rows, std::string(columns, '.'));
  std::vector<double> most(static_cast<size_t>(columns) * rows, 0.0);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (!drawn(problem.buffers[i])) continue;
    const double low = plan.offsets[i] / slice;
    const double high = (plan.offsets[i] + problem.buffers[i].size) / slice;
    for (const Gap& part : live_parts(problem.buffers[i])) {
      const double left = (part.lower - frame.first_time) / step;
      const double right = (part.upper - frame.first_time) / step;
      for (int y = static_cast<int>(low); y < rows && y < high; ++y) {
        for (int x = static_cast<int>(left); x < columns && x < right; ++x) {
          const double share = (std::min(high, y + 1.0) - std::max(low, 1.0 * y)) *
                               (std::min(right, x + 1.0) - std::max(left, 1.0 * x));
          double& held = most[static_cast<size_t>(y) * columns + x];
          if (share <= held) continue;
          held = share;
          lines[rows - 1 - y][x] = kLetters[i % kLetters.size()];
        }
      }
    }
  }
  std::string text = fmt::format("{} bytes, lower bound {}\n", plan.bytes, lower_bound(problem));
  for (const std::string& line : lines) text += "|" + line + "|\n";
  text += fmt::format("time {} to {}\n", frame.first_time, frame.last_time);
  return text;
}

std::string draw_plan_svg(const Problem& problem, const Plan& plan, int width, int height) {
  width = std::clamp(width, 100, 100'000);
  height = std::clamp(height, 100, 100'000);
  const Frame frame = frame_of(problem, plan);
  const double bound = static_cast<double>(lower_bound(problem));
  const double top = 24.0;  // room for the caption
  const double per_time = width / static_cast<double>(frame.last_time - frame.first_time);
  const double per_byte = (height - top) / static_cast<double>(frame.bytes);
  const auto y_of = [&](double address) { return height - address * per_byte; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"4\" y=\"16\">{2} bytes, lower bound {3:.0f}, {4} buffers; x: time {5} to {6}, "
      "y: address</text>\n",
      width, height, plan.bytes, bound, problem.buffers.size(), frame.first_time, frame.last_time);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& buffer = problem.buffers[i];
    if (!drawn(buffer)) continue;
    // The golden angle gives neighbours in the list colours that differ.
    const double hue = static_cast<double>((i * 13751) % 36000) / 100.0;
    for (const Gap& part : live_parts(buffer)) {
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
          "fill=\"hsl({:.0f},60%,70%)\" stroke=\"#333\" stroke-width=\"0.3\"><title>{}: {} bytes "
          "at {}, live in [{}, {})</title></rect>\n",
          (part.lower - frame.first_time) * per_time,
          y_of(static_cast<double>(plan.offsets[i] + buffer.size)),
          (part.upper - part.lower) * per_time, buffer.size * per_byte, hue,
          buffer.id.empty() ? std::to_string(i) : escaped(buffer.id), buffer.size, plan.offsets[i],
          part.lower, part.upper);
    }
  }
  const auto mark = [&](double address, std::string_view colour) {
    svg += fmt::format(
        "<line x1=\"0\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\" "
        "stroke-dasharray=\"6 3\"/>\n",
        width, y_of(address), y_of(address), colour);
  };
  mark(static_cast<double>(plan.bytes), "#c00");
  mark(bound, "#06c");
  return svg + "</svg>\n";
}

}  // namespace tessera
