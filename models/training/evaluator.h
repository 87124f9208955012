// The run over the test images, or those of validation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/models/data/loader.h"
#include "tessera/models/training/tally.h"

namespace tessera {

class Session;  // session.h

// Images and labels of a batch into the arguments of a step that is to be submitted. The batch must
// stay valid until that is collected.
void fill(CompiledStep& step, const Batch& batch);

class Evaluator {
 public:
  // The session has its evaluation steps prepared (run.h).
  Evaluator(Session& session, std::shared_ptr<const Dataset> data, const LoaderOptions& options,
            int64_t classes);

  // Nothing when `stop` asked to end before all images were seen.
  std::optional<Evaluation> run(const std::atomic<int>* stop = nullptr);
  const Loader& loader() const { return loader_; }

 private:
  Session& session_;
  Loader loader_;
  int64_t classes_;
};

}  // namespace tessera
