#include "tessera/tools/predict.h"

#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/config/config.h"
#include "tessera/models/data/sets/image_files.h"
#include "tessera/models/run/classifier.h"
#include "tessera/models/run/record_file.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"
#include "tessera/tools/output.h"

namespace tessera {
namespace {

// Returns the most probable classes of a file, as CSV or for a person.
std::string answer(const std::string& file, std::span<const float> logits,
                   const std::vector<std::string>& classes, size_t top, bool csv) {
  const std::vector<float> shares = Classifier::probabilities(logits);
  std::string line = csv ? csv_field(file) : file + ":";
  const char* separator = "";
  const std::vector<size_t> order = Classifier::ranking(logits);
  for (const size_t k : std::span(order).first(top)) {
    line += csv ? fmt::format(",{},{:.6g}", csv_field(classes[k]), shares[k])
                : fmt::format("{} {} {:.2f} %", separator, classes[k], 100 * shares[k]);
    separator = ",";
  }
  return line;
}

Json json_answer(const std::string& file, std::span<const float> logits,
                 const std::vector<std::string>& classes) {
  return Json::object({{"file", file},
                       {"class", classes[Classifier::ranking(logits)[0]]},
                       {"logits", Json::list_of(logits)},
                       {"probabilities", Json::list_of(Classifier::probabilities(logits))}});
}

}  // namespace

void add_network_options(CLI::App& app, NetworkSource& source) {
  auto* run = app.add_option("--run", source.run, "run folder");
  app.add_option("--checkpoint", source.checkpoint,
                 "the 'best' or 'latest' checkpoint, or a file, instead of the final weights")
      ->needs(run);
  auto* weights = app.add_option("--weights", source.weights,
                                 "a file of weights instead of a run: safetensors or HDF5")
                      ->excludes(run);
  app.add_option("--model", source.model, "network of --weights, unless the file tells it")
      ->needs(weights);
  app.add_option("--set", source.settings,
                 "key=value for --weights, such as data.image_size=256 or data.mean=imagenet")
      ->needs(weights)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--class-names", source.class_names, "file with the name of a class in each line")
      ->needs(weights);
}

void add_predict_options(CLI::App& app, PredictOptions& options) {
  add_network_options(app, options.network);
  app.add_option("--top", options.top,
                 "number of classes to print per picture, most probable first")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "number of pictures computed together")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "0: as in the run's configuration")
      ->check(CLI::Range(0, 1 << 10))
      ->capture_default_str();
  app.add_option("--precision", options.precision,
                 "dtype of activations: float32, bf16 or f16; by default the run's")
      ->check(CLI::IsMember(names_of<Precision>()));
  auto* json = app.add_flag("--json", options.json, "all logits and probabilities, as JSON");
  app.add_flag("--csv", options.csv, "one line per picture, as CSV")->excludes(json);
  app.add_option(
         "pictures", options.inputs,
         "JPEG, PNG and WebP files, folders of them, or -: paths on standard input, one per line")
      ->required();
}

int predict(const PredictOptions& options) {
  const Classifier net =
      load(options.network, {{}, options.batch, options.threads, options.precision});
  const std::vector<std::string>& classes = net.class_names();
  const size_t top = std::min(static_cast<size_t>(options.top), classes.size());
  const std::vector<std::string> files = pictures_of(options.inputs, std::cin);
  std::vector<Json> images;
  int exit_code = 0;
  std::string head = "file";
  for (size_t k = 1; k <= top; ++k) head += fmt::format(",class{0},probability{0}", k);
  if (options.csv) print_line(head);
  net.classify(files, [&](size_t i, std::span<const float> logits, const std::string& fault) {
    if (!fault.empty()) {
      exit_code = DataError(fault).exit_code();
      flush_out();
      print_error(fault);
      images.push_back(Json::object({{"file", files[i]}, {"error", fault}}));
    } else if (options.json) {
      images.push_back(json_answer(files[i], logits, classes));
    } else {
      print_line(answer(files[i], logits, classes, top, options.csv));
    }
  });
  if (options.json)
    print_line(Json::object({{"mean", Json::list_of(net.normalization().mean)},
                             {"std", Json::list_of(net.normalization().std)},
                             {"precision", net.precision()},
                             {"classes", Json::list_of(classes)},
                             {"images", Json::list(images)}})
                   .text(1));
  return exit_code;
}

}  // namespace tessera
