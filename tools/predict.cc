#include "tessera/tools/predict.h"

#include <algorithm>
#include <filesystem>
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

std::vector<std::string> files_of(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (input == "-") {
      for (std::string line; std::getline(std::cin, line);)
        if (!line.empty()) files.push_back(line);
    } else if (std::filesystem::is_directory(input)) {
      const std::vector<std::string> found = pictures_below(input);
      files.insert(files.end(), found.begin(), found.end());
    } else {
      files.push_back(input);
    }
  }
  return files;
}

// Prints the classes of each file in one of the formats.
class Answers {
 public:
  Answers(const Classifier& net, const PredictOptions& options)
      : net_(net),
        options_(options),
        top_(std::min(static_cast<size_t>(options.top), net.class_names().size())) {
    if (!options.csv) return;
    std::string line = "file";
    for (size_t k = 1; k <= top_; ++k) line += fmt::format(",class{0},probability{0}", k);
    print_line(line);
  }

  void add(const std::string& file, std::span<const float> logits) {
    const std::vector<float> shares = Classifier::probabilities(logits);
    std::vector<size_t> order = Classifier::ranking(logits);
    order.resize(top_);
    const auto& names = net_.class_names();
    if (options_.json) {
      images_.push_back(Json::object({{"file", file},
                                      {"class", names[order[0]]},
                                      {"logits", Json::list_of(logits)},
                                      {"probabilities", Json::list_of(shares)}}));
      return;
    }
    std::string line = options_.csv ? csv_field(file) : file + ":";
    for (const size_t k : order)
      line += options_.csv ? fmt::format(",{},{:.6g}", csv_field(names[k]), shares[k])
                           : fmt::format("{} {} {:.2f} %", k == order[0] ? "" : ",", names[k],
                                         100 * shares[k]);
    print_line(line);
  }

  void add_fault(const std::string& file, const std::string& why) {
    exit_code_ = DataError(why).exit_code();
    flush_out();
    print_error(why);
    if (options_.json) images_.push_back(Json::object({{"file", file}, {"error", why}}));
  }

  int exit_code() const { return exit_code_; }
  void finish() const {
    if (!options_.json) return;
    const auto& names = net_.class_names();
    print_line(Json::object({{"mean", Json::list_of(net_.normalization().mean)},
                             {"std", Json::list_of(net_.normalization().std)},
                             {"precision", net_.precision()},
                             {"classes", Json::list_of(names)},
                             {"images", Json::list(images_)}})
                   .text(1));
  }

 private:
  const Classifier& net_;
  const PredictOptions& options_;
  const size_t top_;
  int exit_code_ = 0;
  std::vector<Json> images_;
};

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
  Answers answers(net, options);
  const std::vector<std::string> files = files_of(options.inputs);
  net.classify(files, [&](size_t i, std::span<const float> logits, const std::string& fault) {
    fault.empty() ? answers.add(files[i], logits) : answers.add_fault(files[i], fault);
  });
  answers.finish();
  return answers.exit_code();
}

}  // namespace tessera
