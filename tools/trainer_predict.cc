// trainer predict: what pictures show, by the network of a run folder.
#include <memory>

#include <CLI/CLI.hpp>

#include "tessera/tools/predict.h"
#include "tessera/tools/trainer_verbs.h"

namespace tessera {

void add_predict_verb(CLI::App& app, Verb& verb) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* sub = app.add_subcommand("predict", "name what pictures show");
  add_predict_options(*sub, *options);
  sub->callback([options, &verb] { verb = [options] { return predict(*options); }; });
}

}  // namespace tessera
