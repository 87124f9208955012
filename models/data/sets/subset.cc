#include "tessera/models/data/sets/subset.h"

#include <algorithm>
#include <queue>
#include <utility>

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

// Calls take(piece) for the piece whose turn it is, `count` times, before its `taken` grows.
template <class Take>
void take_turns(std::vector<Piece> pieces, int64_t count, const Take& take) {
  // Whether the next image of a comes after that of b: exact, without a division.
  auto later = [](const Piece& a, const Piece& b) {
    const int64_t left = (2 * a.taken + 1) * b.count, right = (2 * b.taken + 1) * a.count;
    return left != right ? left > right : a.label > b.label;
  };
  std::priority_queue<Piece, std::vector<Piece>, decltype(later)> next(later, std::move(pieces));
  for (int64_t i = 0; i < count && !next.empty(); ++i) {
    Piece piece = next.top();
    next.pop();
    take(piece);
    ++piece.taken;
    if (piece.taken < piece.count) next.push(piece);
  }
}

// Which images, in their order; empty: the first.
std::vector<int64_t> in_proportion(const Dataset& all, int64_t count) {
  std::vector<Piece> pieces = pieces_of(all);
  std::vector<int64_t> chosen;
  if (pieces.empty()) return chosen;
  chosen.reserve(static_cast<size_t>(count));
  take_turns(std::move(pieces), count,
             [&](const Piece& piece) { chosen.push_back(piece.begin + piece.taken); });
  return chosen;
}

class Subset : public Dataset {
 public:
  // chosen: empty for the first images.
  Subset(std::shared_ptr<const Dataset> all, DatasetInfo info, std::vector<int64_t> chosen,
         std::vector<std::string> notes, bool owns)
      : Dataset(std::move(info)),
        all_(std::move(all)),
        chosen_(std::move(chosen)),
        notes_(std::move(notes)),
        owns_(owns) {}

  std::vector<HostBuffer> host_buffers() const override {
    std::vector<HostBuffer> buffers;
    if (owns_) buffers = all_->host_buffers();
    if (!chosen_.empty())
      buffers.push_back({name() + " choice", chosen_.capacity() * sizeof(int64_t)});
    return buffers;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (owns_) notes = all_->notes();
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    return notes;
  }
  bool has_own_sizes() const override { return all_->has_own_sizes(); }
  ImageShape own_shape(int64_t index) const override {
    Dataset::own_shape(index);  // checks it
    return all_->own_shape(place(index));
  }

 private:
  int64_t place(int64_t index) const {
    return chosen_.empty() ? index : chosen_[static_cast<size_t>(index)];
  }
  void do_read(int64_t index, uint8_t* image) const override { all_->read(place(index), image); }
  int64_t do_label(int64_t index) const override { return all_->label(place(index)); }
  void do_read_part(int64_t index, const Box& part, const ImageShape& to,
                    uint8_t* image) const override {
    all_->read_part(place(index), part, to, image);
  }

  const std::shared_ptr<const Dataset> all_;
  const std::vector<int64_t> chosen_;
  const std::vector<std::string> notes_;
  const bool owns_;
};

}  // namespace

std::vector<int64_t> shares_in_proportion(const std::vector<int64_t>& of_class, int64_t count) {
  std::vector<Piece> pieces;
  for (size_t label = 0; label < of_class.size(); ++label)
    if (of_class[label] > 0) pieces.push_back({static_cast<int64_t>(label), 0, of_class[label]});
  std::vector<int64_t> shares(of_class.size());
  take_turns(std::move(pieces), count,
             [&](const Piece& piece) { ++shares[static_cast<size_t>(piece.label)]; });
  return shares;
}

std::shared_ptr<const Dataset> part(std::shared_ptr<const Dataset> all, std::string name,
                                    std::vector<int64_t> chosen, std::vector<std::string> notes,
                                    bool owns) {
  DatasetInfo info = all->info();
  info.name = std::move(name);
  info.count = static_cast<int64_t>(chosen.size());
  if (!owns) info.skipped = 0;  // told of the part that owns
  return std::make_shared<Subset>(std::move(all), std::move(info), std::move(chosen),
                                  std::move(notes), owns);
}

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
  std::vector<std::string> notes =
      chosen.empty()
          ? first_images_note(count, all->count())
          : std::vector{fmt::format("{} of {} images are used, of each class in proportion", count,
                                    all->count())};
  DatasetInfo info = all->info();
  info.count = count;
  return std::make_shared<Subset>(std::move(all), std::move(info), std::move(chosen),
                                  std::move(notes), true);
}

}  // namespace tessera
