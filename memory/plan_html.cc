#include "tessera/memory/plan_html.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/runtime/text/json.h"

namespace tessera {

extern const char* const kPlanPage;  // plan_page.html

namespace {

std::string script(const std::string& text) { return Json(text).script(); }

class Writer {
 public:
  explicit Writer(const PlanPicture& picture) : picture_(picture) {
    for (const Interval& b : picture.problem.buffers) {
      if (!b.takes_room()) continue;
      first_ = any_ ? std::min(first_, b.lower) : b.lower;
      last_ = any_ ? std::max(last_, b.upper) : b.upper;
      any_ = true;
    }
  }

  void write(const std::function<void(std::string_view)>& piece) {
    piece(fmt::format("{{title:{},bytes:{},bound:{},first:{},last:{},forward:{},boxes:[\n",
                      script(picture_.title), picture_.plan.bytes, lower_bound(picture_.problem),
                      first_, std::max(last_, first_ + 1), picture_.forward_ends));
    for (size_t i = 0; i < picture_.problem.buffers.size(); ++i) {
      if (picture_.problem.buffers[i].takes_room()) piece(box(i));
    }
    piece(fmt::format("],groups:[{}],nodes:[{}]}},\n", group_list(), node_list()));
  }

 private:
  std::string box(size_t i) {
    const Interval& b = picture_.problem.buffers[i];
    const BufferLabel label = i < picture_.labels.size() ? picture_.labels[i] : BufferLabel();
    std::string name = label.name.empty() ? b.id : label.name;
    if (name.empty()) name = std::to_string(i);
    return fmt::format("[{},{},{},[{}],{},{}],\n", picture_.plan.offsets[i], b.size,
                       group_of(label.group), spans(b), script(name), script(label.details));
  }

  // Returns the lifetime without its gaps: "0,4,6,9".
  static std::string spans(const Interval& b) {
    std::string text;
    for (const Gap& part : live_parts(b))
      text += fmt::format("{}{},{}", text.empty() ? "" : ",", part.lower, part.upper);
    return text;
  }

  size_t group_of(const std::string& name) {
    const auto at = std::find(groups_.begin(), groups_.end(), name);
    if (at != groups_.end()) return static_cast<size_t>(at - groups_.begin());
    groups_.push_back(name);
    return groups_.size() - 1;
  }

  std::string group_list() const {
    std::string text;
    for (const std::string& group : groups_) text += script(group) + ",";
    return text;
  }

  // Returns the names of the times from the first on, as far as there are any.
  std::string node_list() const {
    std::string text;
    for (int64_t t = first_; t < last_ && t >= 0 && t < std::ssize(picture_.nodes); ++t) {
      text += script(picture_.nodes[static_cast<size_t>(t)]) + ",";
    }
    return text;
  }

  const PlanPicture& picture_;
  bool any_ = false;
  int64_t first_ = 0, last_ = 0;
  std::vector<std::string> groups_;
};

}  // namespace

void draw_plan_html(std::span<const PlanPicture> pictures,
                    const std::function<void(std::string_view)>& piece) {
  constexpr std::string_view kMark = "/*PICTURES*/";
  const std::string_view page = kPlanPage;
  const size_t mark = page.find(kMark);
  piece(page.substr(0, mark));
  for (const PlanPicture& picture : pictures) Writer(picture).write(piece);
  piece(page.substr(mark + kMark.size()));
}

std::string draw_plan_html(std::span<const PlanPicture> pictures) {
  std::string text;
  draw_plan_html(pictures, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace tessera
