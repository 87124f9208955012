#include "tessera/models/data/sets/held_out.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {
namespace {

// The images of each class, in a random order.
std::vector<std::vector<int64_t>> drawn(const Dataset& all, uint64_t seed) {
  std::vector<std::vector<int64_t>> classes(static_cast<size_t>(all.classes()));
  for (int64_t i = 0; i < all.count(); ++i) classes[static_cast<size_t>(all.label(i))].push_back(i);
  const uint64_t key = random_key(seed, "validation");
  for (size_t label = 0; label < classes.size(); ++label) {
    RandomSequence random(key, label);
    std::vector<int64_t>& images = classes[label];
    for (size_t left = images.size(); left > 1; --left)
      std::swap(images[left - 1], images[random.below(left)]);
  }
  return classes;
}

// "mnist validation" of "mnist train".
std::string validation_name(std::string name) {
  constexpr std::string_view kTrain = " train";
  if (name.ends_with(kTrain)) name.resize(name.size() - kTrain.size());
  return name + " validation";
}

}  // namespace

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
  if (held < 1) return fmt::format("{} of {} training images is none", validation.text(), images);
  if (held < images) return "";
  return fmt::format("{} of {} training images leaves none to train on", validation.text(), images);
}

HeldOut hold_out(const std::shared_ptr<const Dataset>& all, const ValidationSource& validation,
                 uint64_t seed) {
  if (const std::string problem = held_out_problem(validation, all->count()); !problem.empty())
    throw ConfigError("data.validation: " + problem);
  const int64_t count = validation.images(all->count());
  const std::vector<std::vector<int64_t>> classes = drawn(*all, seed);
  std::vector<int64_t> of_class;
  for (const std::vector<int64_t>& images : classes)
    of_class.push_back(static_cast<int64_t>(images.size()));
  const std::vector<int64_t> shares = shares_in_proportion(of_class, count);
  std::vector<bool> held(static_cast<size_t>(all->count()));
  for (size_t label = 0; label < classes.size(); ++label)
    for (size_t i = 0; i < static_cast<size_t>(shares[label]); ++i)
      held[static_cast<size_t>(classes[label][i])] = true;
  std::vector<int64_t> kept, taken;
  kept.reserve(static_cast<size_t>(all->count() - count));
  taken.reserve(static_cast<size_t>(count));
  for (size_t i = 0; i < held.size(); ++i)
    (held[i] ? taken : kept).push_back(static_cast<int64_t>(i));
  std::string note = fmt::format(
      "{} of {} images are held out for validation, drawn by the seed, of each class in proportion",
      count, all->count());
  return {part(all, all->name(), std::move(kept), {std::move(note)}, true),
          part(all, validation_name(all->name()), std::move(taken), {}, false)};
}

int64_t held_out_bytes(int64_t images) { return subset_bytes(images); }

}  // namespace tessera
