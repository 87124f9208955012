#include "tessera/runtime/data/sets/subset.h"

#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// The images of one class, which lie in one piece.
struct Piece {
  int64_t label = 0, begin = 0, count = 0, taken = 0;
};

// Empty where a class lies in more than one.
std::vector<Piece> pieces_of(const Dataset& all) {
  std::vector<bool> seen(static_cast<size_t>(all.classes()));
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < all.count(); ++i) {
    const int64_t label = all.label(i);
    if (pieces.empty() || pieces.back().label != label) {
      if (seen[static_cast<size_t>(label)]) return {};
      seen[static_cast<size_t>(label)] = true;
      pieces.push_back({label, i});
    }
    ++pieces.back().count;
  }
  return pieces;
}

// Which images, in their order; empty: the first.
std::vector<int64_t> in_proportion(const Dataset& all, int64_t count) {
  // Whether the next image of a comes after that of b: exact, without a division.
  auto later = [](const Piece& a, const Piece& b) {
    const int64_t left = (2 * a.taken + 1) * b.count, right = (2 * b.taken + 1) * a.count;
    return left != right ? left > right : a.label > b.label;
  };
  std::priority_queue<Piece, std::vector<Piece>, decltype(later)> next(later, pieces_of(all));
  std::vector<int64_t> chosen;
  if (next.empty()) return chosen;
  chosen.reserve(static_cast<size_t>(count));
  while (static_cast<int64_t>(chosen.size()) < count) {
    Piece piece = next.top();
    next.pop();
    chosen.push_back(piece.begin + piece.taken++);
    if (piece.taken < piece.count) next.push(piece);
  }
  return chosen;
}

class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> all, int64_t count, std::vector<int64_t> chosen)
      : Dataset(shortened(all->info(), count)), all_(std::move(all)), chosen_(std::move(chosen)) {}

  std::vector<HostBuffer> host_buffers() const override {
    std::vector<HostBuffer> buffers = all_->host_buffers();
    if (!chosen_.empty())
      buffers.push_back({name() + " choice", chosen_.capacity() * sizeof(int64_t)});
    return buffers;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = all_->notes();
    if (!chosen_.empty())
      notes.push_back(fmt::format("{} of {} images are used, of each class in proportion", count(),
                                  all_->count()));
    else
      for (const std::string& note : first_images_note(count(), all_->count()))
        notes.push_back(note);
    return notes;
  }
  bool has_own_sizes() const override { return all_->has_own_sizes(); }
  ImageShape own_shape(int64_t index) const override {
    Dataset::own_shape(index);  // checks it
    return all_->own_shape(place(index));
  }

 private:
  static DatasetInfo shortened(DatasetInfo info, int64_t count) {
    info.count = count;
    return info;
  }
  int64_t place(int64_t index) const {
    return chosen_.empty() ? index : chosen_[static_cast<size_t>(index)];
  }
  void do_read(int64_t index, uint8_t* image) const override { all_->read(place(index), image); }
  int64_t do_label(int64_t index) const override { return all_->label(place(index)); }
  void do_read_part(int64_t index, const Box& part, const ImageShape& to,
                    uint8_t* image) const override {
    all_->read_part(place(index), part, to, image);
  }

  std::shared_ptr<const Dataset> all_;
  std::vector<int64_t> chosen_;
};

}  // namespace

std::vector<std::string> first_images_note(int64_t count, int64_t all) {
  if (count == all) return {};
  return {fmt::format("the first {} of {} images are used", count, all)};
}

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> all, int64_t count,
                                      SubsetOrder order) {
  if (count < 1 || count > all->count())
    throw Error(
        fmt::format("{}: {} of {} images cannot be taken", all->name(), count, all->count()));
  std::vector<int64_t> chosen;
  if (order == SubsetOrder::kProportion) chosen = in_proportion(*all, count);
  return std::make_shared<Subset>(std::move(all), count, std::move(chosen));
}

}  // namespace tessera
