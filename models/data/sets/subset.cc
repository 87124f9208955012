#include "tessera/models/data/sets/subset.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {

namespace {

// The images of one class, which are contiguous.
struct Piece {
  int64_t label = 0, begin = 0, count = 0, taken = 0;
};

// Returns the piece of each class; empty if a class is not contiguous.
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

// Calls take(piece) `count` times, for the piece whose turn it is, before its `taken` grows.
template <class Take>
void take_turns(std::vector<Piece> pieces, int64_t count, const Take& take) {
  // Returns true if the next image of a comes after that of b. Exact: does not divide.
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

// Returns the indices of the images, in their order; empty: the first images.
std::vector<int64_t> in_proportion(const Dataset& all, int64_t count) {
  std::vector<Piece> pieces = pieces_of(all);
  std::vector<int64_t> chosen;
  if (pieces.empty()) return chosen;
  chosen.reserve(static_cast<size_t>(count));
  take_turns(std::move(pieces), count,
             [&](const Piece& piece) { chosen.push_back(piece.begin + piece.taken); });
  return chosen;
}

// Returns the number of images that each class gives to a subset of `count` in proportion.
std::vector<int64_t> shares_in_proportion(const std::vector<int64_t>& of_class, int64_t count) {
  std::vector<Piece> pieces;
  for (size_t label = 0; label < of_class.size(); ++label)
    if (of_class[label] > 0) pieces.push_back({static_cast<int64_t>(label), 0, of_class[label]});
  std::vector<int64_t> shares(of_class.size());
  take_turns(std::move(pieces), count,
             [&](const Piece& piece) { ++shares[static_cast<size_t>(piece.label)]; });
  return shares;
}

class Subset : public Dataset {
 public:
  // chosen: indices; empty: the first images.
  Subset(std::shared_ptr<const Dataset> all, DatasetInfo info, std::vector<int64_t> chosen,
         std::vector<std::string> notes, bool owns)
      : Dataset(std::move(info)),
        all_(std::move(all)),
        chosen_(std::move(chosen)),
        notes_(std::move(notes)),
        owns_(owns) {}

  std::vector<MemoryItem> host_buffers() const override {
    std::vector<MemoryItem> buffers;
    if (owns_) buffers = all_->host_buffers();
    if (!chosen_.empty())
      buffers.push_back({name() + " indices", chosen_.capacity() * sizeof(int64_t)});
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
    Dataset::own_shape(index);  // checks the index
    return all_->own_shape(place(index));
  }

 protected:
  int64_t do_label(int64_t index) const override { return all_->label(place(index)); }

 private:
  int64_t place(int64_t index) const {
    return chosen_.empty() ? index : chosen_[static_cast<size_t>(index)];
  }
  std::string do_file(int64_t index) const override { return all_->file(place(index)); }
  void do_read(int64_t index, uint8_t* image) const override { all_->read(place(index), image); }
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

std::shared_ptr<const Dataset> part(std::shared_ptr<const Dataset> all, std::string name,
                                    int64_t count, std::vector<int64_t> chosen,
                                    std::vector<std::string> notes, bool owns) {
  DatasetInfo info = all->info();
  info.name = std::move(name);
  info.count = count;
  if (!owns) info.skipped = 0;  // reported by the part that owns
  return std::make_shared<Subset>(std::move(all), std::move(info), std::move(chosen),
                                  std::move(notes), owns);
}

namespace {

using Classes = std::vector<std::vector<int64_t>>;

// Returns the images of each class.
Classes by_class(const Dataset& all) {
  Classes classes(static_cast<size_t>(all.classes()));
  for (int64_t i = 0; i < all.count(); ++i) classes[static_cast<size_t>(all.label(i))].push_back(i);
  return classes;
}

// Returns the images of each class in an order that the names of their files decide, so that new
// files leave the order of the others as it is.
Classes ordered_by_name(const Dataset& all) {
  Classes classes = by_class(all);
  for (std::vector<int64_t>& images : classes) {
    std::vector<std::pair<uint64_t, int64_t>> order;
    for (const int64_t i : images) order.emplace_back(random_key(0, all.file(i)), i);
    std::ranges::sort(order);
    std::ranges::transform(order, images.begin(), &std::pair<uint64_t, int64_t>::second);
  }
  return classes;
}

// Returns the images of each class, in random order.
Classes drawn(const Dataset& all, uint64_t key) {
  Classes classes = by_class(all);
  for (size_t label = 0; label < classes.size(); ++label) {
    RandomSequence random(key, label);
    std::vector<int64_t>& images = classes[label];
    for (size_t left = images.size(); left > 1; --left)
      std::swap(images[left - 1], images[random.below(left)]);
  }
  return classes;
}

struct Indices {
  std::vector<int64_t> kept, taken;
};

// Takes `count` images away: each class gives its first, as near to its share as possible.
Indices take_away(const Dataset& all, int64_t count, const Classes& classes) {
  std::vector<int64_t> of_class;
  for (const std::vector<int64_t>& images : classes)
    of_class.push_back(static_cast<int64_t>(images.size()));
  const std::vector<int64_t> shares = shares_in_proportion(of_class, count);
  std::vector<bool> away(static_cast<size_t>(all.count()));
  for (size_t label = 0; label < classes.size(); ++label)
    for (size_t i = 0; i < static_cast<size_t>(shares[label]); ++i)
      away[static_cast<size_t>(classes[label][i])] = true;
  Indices indices;
  indices.kept.reserve(static_cast<size_t>(all.count() - count));
  indices.taken.reserve(static_cast<size_t>(count));
  for (size_t i = 0; i < away.size(); ++i)
    (away[i] ? indices.taken : indices.kept).push_back(static_cast<int64_t>(i));
  return indices;
}

// Returns "mnist validation" for "mnist train".
std::string validation_name(std::string name) {
  constexpr std::string_view kTrain = " train";
  if (name.ends_with(kTrain)) name.resize(name.size() - kTrain.size());
  return name + " validation";
}

class Relabelled : public Subset {
 public:
  Relabelled(std::shared_ptr<const Dataset> data, DatasetInfo info, std::vector<int64_t> labels)
      : Subset(std::move(data), std::move(info), {}, {}, true), labels_(std::move(labels)) {}

 private:
  int64_t do_label(int64_t index) const override {
    return labels_[static_cast<size_t>(Subset::do_label(index))];
  }

  const std::vector<int64_t> labels_;
};

}  // namespace

std::vector<std::string> first_images_note(int64_t count, int64_t all) {
  if (count == all) return {};
  return {fmt::format("the first {} of {} images are used", count, all)};
}

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> all, int64_t count,
                                      SubsetOrder order) {
  if (count < 1 || count > all->count())
    throw Error(fmt::format("{}: cannot select {} of {} images", all->name(), count, all->count()));
  std::vector<int64_t> chosen;
  if (order == SubsetOrder::kProportion) chosen = in_proportion(*all, count);
  std::vector<std::string> notes =
      chosen.empty()
          ? first_images_note(count, all->count())
          : std::vector{fmt::format("{} of {} images are used, in proportion to the classes", count,
                                    all->count())};
  std::string name = all->name();
  return part(std::move(all), std::move(name), count, std::move(chosen), std::move(notes));
}

int64_t ValidationSource::images(int64_t training) const {
  if (count > 0) return count;
  return std::llround(static_cast<double>(training) * percent / 100);
}

std::string ValidationSource::text() const {
  if (!folder.empty()) return folder;
  if (count > 0) return fmt::format("{}", count);
  return percent > 0 ? fmt::format("{}%", percent) : "none";
}

std::string held_out_problem(const ValidationSource& validation, int64_t images) {
  const int64_t held = validation.images(images);
  if (held < 1)
    return fmt::format("{} of {} training images rounds to 0", validation.text(), images);
  if (held < images) return "";
  return fmt::format("{} of {} training images leaves no image to train on", validation.text(),
                     images);
}

HeldOut hold_out(const std::shared_ptr<const Dataset>& all, const ValidationSource& validation,
                 uint64_t seed) {
  if (const std::string problem = held_out_problem(validation, all->count()); !problem.empty())
    throw ConfigError("data.validation: " + problem);
  const int64_t count = validation.images(all->count());
  auto [kept, taken] = take_away(*all, count, drawn(*all, random_key(seed, "validation")));
  std::string note = fmt::format(
      "{} of {} images are held out for validation, drawn by the seed, in proportion to the "
      "classes",
      count, all->count());
  return {part(all, all->name(), all->count() - count, std::move(kept), {std::move(note)}),
          part(all, validation_name(all->name()), count, std::move(taken), {}, false)};
}

int64_t cut_count(int64_t images, double fraction) {
  return ValidationSource{.percent = 100 * fraction}.images(images);
}

DataSplit cut_test(const std::shared_ptr<const Dataset>& all, double fraction, bool test_only) {
  const int64_t count = cut_count(all->count(), fraction);
  if (count < 1 || count >= all->count())
    throw ConfigError(fmt::format(
        "data.test_fraction: {} of {} images leaves no image to {}; set another fraction, or put "
        "test images into a folder of their own",
        fraction, all->count(), count < 1 ? "test" : "train on"));
  auto [kept, taken] = take_away(*all, count, ordered_by_name(*all));
  std::vector<std::string> notes{fmt::format(
      "{} of {} images are cut off as the test set, the same in every run, in proportion to the "
      "classes (data.test_fraction)",
      count, all->count())};
  const std::string set = all->name().substr(0, all->name().rfind(' '));
  DataSplit cut;
  cut.cut = true;
  if (!test_only)
    cut.train =
        part(all, set + " train", all->count() - count, std::move(kept), std::exchange(notes, {}));
  cut.test = part(all, set + " test", count, std::move(taken), notes, test_only);
  return cut;
}

std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> data,
                                          std::vector<int64_t> labels, int classes,
                                          std::vector<std::string> names) {
  for (int64_t i = 0; i < data->count(); ++i) {
    const auto label = static_cast<size_t>(data->label(i));
    if (label >= labels.size() || labels[label] < 0 || labels[label] >= classes)
      throw Error(fmt::format("{}: there is no new label for label {} of image {}", data->name(),
                              label, i));
  }
  DatasetInfo info = data->info();
  info.classes = classes;
  info.class_names = std::move(names);
  return std::make_shared<Relabelled>(std::move(data), std::move(info), std::move(labels));
}

}  // namespace tessera
