// Data loading as a chain of calls. Each call returns a new pipeline; nothing runs before start(),
// which makes the Loader that does the work.
//
//   auto loader = from(data.train).shuffle(0, 1).map(crop(4)).map(flip_horizontal())
//                     .batch(128).prefetch().start();
//   for (int64_t i = 0; i < loader->batches(); ++i) use(loader->next());
//
// All that is done to one sample is done by one worker, so it stays in that worker's cache. Where a
// number is kAuto it is chosen by rule, from the shapes and the cores alone, within bounds;
// describe() says what was chosen and why. The batches do not depend on it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/runtime/data/loader.h"

namespace tessera {

inline constexpr int kAuto = -1;

struct MapOptions {
  int parallel = kAuto;  // workers, 0: the thread that calls next(); the largest of a chain counts
};

class Pipeline {
 public:
  explicit Pipeline(std::shared_ptr<const Dataset> dataset);

  // Draws each sample from `window` that are left, in the order of the data set; 0: from all. The
  // seed is that of the random transforms too.
  Pipeline shuffle(int64_t window = 0, uint64_t seed = 1) const;
  // Transforms each image: by one transform, by several, or by a function of one's own that keeps
  // the shape (in and out do not overlap; called by many threads at once).
  using Function =
      std::function<void(const ImageShape&, const uint8_t* in, uint8_t* out, RandomSequence&)>;
  Pipeline map(TransformPtr transform, MapOptions options = {}) const;
  Pipeline map(const Transforms& transforms, MapOptions options = {}) const;
  Pipeline map(std::string name, Function function, MapOptions options = {}) const;
  // Mixes the images of a batch with each other.
  Pipeline mix(const Mix& mix) const;
  Pipeline batch(int64_t images, bool drop_last = false) const;
  // Takes part `index` of `count` of every global batch.
  Pipeline shard(int index, int count) const;
  // Batches ready or in the making besides the one handed out.
  Pipeline prefetch(int batches = kAuto) const;

  // What start() gives the Loader: nothing in it is kAuto.
  LoaderOptions options() const;
  // "synthetic train | shuffle all, seed 1 | crop padding 4 | batch 128 | 2 workers (auto: ...)
  // ..."
  std::string describe() const;
  // Logs describe() as information. Throws ConfigError for invalid options.
  std::unique_ptr<Loader> start(RawMemory& memory = cpu_memory()) const;

 private:
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;  // workers and read_ahead may be kAuto
};

inline Pipeline from(std::shared_ptr<const Dataset> dataset) {
  return Pipeline(std::move(dataset));
}

}  // namespace tessera
