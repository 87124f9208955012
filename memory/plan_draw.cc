#include "tessera/memory/plan_draw.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

extern const char* const kPlanPage;  // plan_page.html

namespace {

struct Frame {
  int64_t first_time = 0;
  int64_t last_time = 1;
  int64_t bytes = 1;
  bool empty = true;  // no buffer needs room
};

Frame frame_of(const Problem& problem, const Plan& plan) {
  Frame frame;
  for (const Interval& buffer : problem.buffers) {
    if (!buffer.takes_room()) continue;
    frame.first_time = frame.empty ? buffer.lower : std::min(frame.first_time, buffer.lower);
    frame.last_time = frame.empty ? buffer.upper : std::max(frame.last_time, buffer.upper);
    frame.empty = false;
  }
  frame.bytes = std::max<int64_t>(plan.bytes, 1);
  return frame;
}

std::string name_of(const Problem& problem, size_t i) {
  const std::string& id = problem.buffers[i].id;
  return id.empty() ? std::to_string(i) : id;
}

// Returns the first of 1, 2, 5, 10, ... that cuts a range into at most `parts`.
int64_t round_step(int64_t range, int64_t parts) {
  for (int64_t step = 1;; step *= 10) {
    for (int64_t factor : {1, 2, 5})
      if (range / (step * factor) <= parts) return step * factor;
  }
}

// Returns "1.5 MiB" for a multiple of a power of two, which needs at most three decimals.
std::string tick_text(int64_t bytes) {
  std::string text = byte_text(bytes, 3);
  const size_t space = text.find(' '), point = text.find('.');
  if (point == text.npos) return text;
  size_t end = text.find_last_not_of('0', space - 1) + 1;
  if (end == point + 1) --end;
  return text.erase(end, space - end);
}

// Labelled lines at round addresses and marks at round times.
struct Axes {
  double left, bottom;  // the origin
  double right, per_time, per_byte;

  std::string svg(const Frame& frame) const {
    std::string text = "<g fill=\"#555\" stroke-width=\"0.5\" font-size=\"11\">\n";
    const auto step = static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(frame.bytes / 8, 1))));
    for (int64_t at = 0; at <= frame.bytes; at += step) {
      text += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.2f}\" y2=\"{2:.2f}\" stroke=\"#ccc\"/>"
          "<text x=\"{3}\" y=\"{4:.2f}\" text-anchor=\"end\">{5}</text>\n",
          left, right, bottom - static_cast<double>(at) * per_byte, left - 5,
          bottom - static_cast<double>(at) * per_byte + 4, tick_text(at));
    }
    const int64_t stride = round_step(frame.last_time - frame.first_time, 12);
    int64_t at = frame.first_time / stride * stride;
    if (at < frame.first_time) at += stride;
    for (; at <= frame.last_time; at += stride) {
      const double x = left + static_cast<double>(at - frame.first_time) * per_time;
      text += fmt::format(
          "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#555\"/>"
          "<text x=\"{3:.2f}\" y=\"{4}\" text-anchor=\"middle\">{5}</text>\n",
          x, bottom, bottom + 4, std::min(x, right - 12), bottom + 15, at);
    }
    return text + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">node</text>\n</g>\n",
                              left - 24, bottom + 15);
  }
};

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

// Returns the buffers that are drawn, the largest first.
std::vector<size_t> by_size(const Problem& problem) {
  std::vector<size_t> order;
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    if (problem.buffers[i].takes_room()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].size > problem.buffers[b].size;
  });
  return order;
}

std::string letters_of(const Problem& problem, const std::vector<size_t>& order) {
  const size_t count = problem.buffers.size();
  std::string letters(count, '+');
  if (count <= kLetters.size()) {
    for (size_t i = 0; i < count; ++i) letters[i] = kLetters[i];
  } else {
    for (size_t rank = 0; rank < std::min(order.size(), kLetters.size()); ++rank)
      letters[order[rank]] = kLetters[rank];
  }
  return letters;
}

std::string legend_of(const Problem& problem, const std::string& letters,
                      const std::vector<size_t>& order, int lines) {
  std::string text;
  const size_t shown = std::min(order.size(), static_cast<size_t>(std::max(lines, 0)));
  if (shown > 0) text += "up: addresses; right: time; '.': free; the largest buffers:\n";
  for (size_t rank = 0; rank < shown; ++rank) {
    const Interval& b = problem.buffers[order[rank]];
    text += fmt::format("  {}  {:>12}  time {:>4} to {:<4}  {}\n", letters[order[rank]],
                        byte_text(b.size), b.lower, b.upper, name_of(problem, order[rank]));
  }
  if (shown > 0 && letters.find('+') != letters.npos)
    text += fmt::format("  +  one of the {} smaller buffers\n",
                        std::count(letters.begin(), letters.end(), '+'));
  return text;
}

std::string script(const std::string& text) { return Json(text).script(); }

// Passes a picture to `piece` as an object of the page's script.
void write(const PlanPicture& picture, const std::function<void(std::string_view)>& piece) {
  const Problem& problem = picture.problem;
  const Frame frame = frame_of(problem, picture.plan);
  piece(fmt::format("{{title:{},bytes:{},bound:{},first:{},last:{},forward:{},boxes:[\n",
                    script(picture.title), picture.plan.bytes, lower_bound(problem),
                    frame.first_time, frame.last_time, picture.forward_ends));
  std::vector<std::string> groups;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (!b.takes_room()) continue;
    const BufferLabel label = i < picture.labels.size() ? picture.labels[i] : BufferLabel();
    const auto group = std::find(groups.begin(), groups.end(), label.group) - groups.begin();
    if (group == std::ssize(groups)) groups.push_back(label.group);
    std::string spans;  // the lifetime without its gaps: "0,4,6,9"
    for (const Gap& part : live_parts(b))
      spans += fmt::format("{}{},{}", spans.empty() ? "" : ",", part.lower, part.upper);
    piece(fmt::format("[{},{},{},[{}],{},{}],\n", picture.plan.offsets[i], b.size, group, spans,
                      script(label.name.empty() ? name_of(problem, i) : label.name),
                      script(label.details)));
  }
  std::string names, nodes;
  for (const std::string& group : groups) names += script(group) + ",";
  for (int64_t t = frame.first_time;
       !frame.empty && t < frame.last_time && t >= 0 && t < std::ssize(picture.nodes); ++t)
    nodes += script(picture.nodes[static_cast<size_t>(t)]) + ",";
  piece(fmt::format("],groups:[{}],nodes:[{}]}},\n", names, nodes));
}

}  // namespace

std::string draw_plan_text(const Problem& problem, const Plan& plan, int columns, int rows,
                           int legend) {
  const std::vector<size_t> order = by_size(problem);
  const std::string letters = letters_of(problem, order);
  columns = std::clamp(columns, 1, 1000);
  rows = std::clamp(rows, 1, 1000);
  const Frame frame = frame_of(problem, plan);
  const double step = static_cast<double>(frame.last_time - frame.first_time) / columns;
  const double slice = static_cast<double>(frame.bytes) / rows;
  std::vector<std::string> lines(rows, std::string(columns, '.'));
  std::vector<double> most(static_cast<size_t>(columns) * rows, 0.0);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (!problem.buffers[i].takes_room()) continue;
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
          lines[rows - 1 - y][x] = letters[i];
        }
      }
    }
  }
  std::string text = fmt::format("{} bytes, lower bound {}\n", plan.bytes, lower_bound(problem));
  for (const std::string& line : lines) text += "|" + line + "|\n";
  text += fmt::format("time {} to {}\n", frame.first_time, frame.last_time);
  return text + legend_of(problem, letters, order, legend);
}

std::string draw_plan_svg(const Problem& problem, const Plan& plan, int width, int height) {
  std::string svg;
  draw_plan_svg(problem, plan, width, height, [&](const std::string& piece) { svg += piece; });
  return svg;
}

void draw_plan_svg(const Problem& problem, const Plan& plan, int width, int height,
                   const std::function<void(std::string)>& piece) {
  constexpr size_t kPiece = 4096;
  width = std::clamp(width, 100, 100'000);
  height = std::clamp(height, 100, 100'000);
  const Frame frame = frame_of(problem, plan);
  const double bound = static_cast<double>(lower_bound(problem));
  const double top = 24.0;  // height of the caption
  const Axes axes{80, height - 20.0, 1.0 * width,
                  (width - 80) / static_cast<double>(frame.last_time - frame.first_time),
                  (height - 20 - top) / static_cast<double>(frame.bytes)};
  const auto y_of = [&](double address) { return axes.bottom - address * axes.per_byte; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"4\" y=\"16\">{2} bytes, lower bound {3:.0f}, {4} buffers; x: time {5} to {6}, "
      "y: address</text>\n",
      width, height, plan.bytes, bound, problem.buffers.size(), frame.first_time, frame.last_time);
  svg += axes.svg(frame);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& buffer = problem.buffers[i];
    if (!buffer.takes_room()) continue;
    if (svg.size() > kPiece) piece(std::exchange(svg, {}));
    // The golden angle gives neighbours in the list different colours.
    const double hue = static_cast<double>((i * 13751) % 36000) / 100.0;
    for (const Gap& part : live_parts(buffer)) {
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
          "fill=\"hsl({:.0f},60%,70%)\" stroke=\"#333\" stroke-width=\"0.3\"><title>{}: {} bytes "
          "at {}, live in [{}, {})</title></rect>\n",
          axes.left + (part.lower - frame.first_time) * axes.per_time,
          y_of(static_cast<double>(plan.offsets[i] + buffer.size)),
          (part.upper - part.lower) * axes.per_time, buffer.size * axes.per_byte, hue,
          html_escaped(name_of(problem, i)), buffer.size, plan.offsets[i], part.lower, part.upper);
    }
  }
  const auto mark = [&](double address, std::string_view colour) {
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\" "
        "stroke-dasharray=\"6 3\"/>\n",
        axes.left, width, y_of(address), y_of(address), colour);
  };
  mark(static_cast<double>(plan.bytes), "#c00");
  mark(bound, "#06c");
  piece(svg + "</svg>\n");
}

void draw_plan_html(std::span<const PlanPicture> pictures,
                    const std::function<void(std::string_view)>& piece) {
  constexpr std::string_view kMark = "/*PICTURES*/";
  const std::string_view page = kPlanPage;
  const size_t mark = page.find(kMark);
  piece(page.substr(0, mark));
  for (const PlanPicture& picture : pictures) write(picture, piece);
  piece(page.substr(mark + kMark.size()));
}

std::string draw_plan_html(std::span<const PlanPicture> pictures) {
  std::string text;
  draw_plan_html(pictures, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace tessera
