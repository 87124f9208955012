// trainer export: writes a trained network in file formats of other programs.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/run/trained_network.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/predict.h"
#include "tessera/tools/trainer_commands.h"
#if TESSERA_ONNX
#include "tessera/tools/onnx/export_onnx.h"
#endif

namespace tessera {
namespace {

struct ExportArguments {
  NetworkSource network;
  std::string output;
  int64_t batch = 0;
};

#if TESSERA_ONNX
void write_onnx(const TrainedNetwork& trained, const ExportArguments& arguments) {
  write_file(arguments.output, onnx_text(trained, arguments.batch));
}
#else
void write_onnx(const TrainedNetwork&, const ExportArguments&) {
  throw ConfigError(
      "export: this trainer was built without ONNX; on Debian: apt-get install libonnx-dev "
      "libprotobuf-dev protobuf-compiler, and rebuild");
}
#endif

int run_export(const ExportArguments& arguments) {
  const bool is_onnx = arguments.output.ends_with(".onnx");
  const bool is_keras = arguments.output.ends_with(".h5");
  if (!is_onnx && !is_keras && !arguments.output.ends_with(".safetensors"))
    throw ConfigError(
        fmt::format("export: '{}' must end in .safetensors, .weights.h5, .h5 or .onnx, which "
                    "selects the format",
                    arguments.output));
  if (!is_onnx && arguments.batch != 0)
    throw ConfigError("export: --batch applies only to ONNX files; remove it");
  const auto trained = trained_network(arguments.network);
  trained->config.precision = Precision::float32;
  std::string form;
  if (is_onnx) {
    write_onnx(*trained, arguments);
    form = (arguments.batch == 0 ? "ONNX for any batch size"
                                 : fmt::format("ONNX for batches of {}", arguments.batch)) +
           ", in float32";
  } else if (is_keras) {
    const bool is_now = arguments.output.ends_with(".weights.h5");
    export_keras(*trained, arguments.output, is_now ? KerasForm::now : KerasForm::before);
    form = is_now ? "with the layer names of Keras 3" : "with the layer names of Keras 2";
  } else {
    form = "with " + export_safetensors(*trained, arguments.output) + " names";
  }
  print_line(fmt::format("{}: {} of '{}', {}", arguments.output, trained->config.model.name,
                         trained->weights, form));
  return 0;
}

}  // namespace

void add_export_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* sub =
      add_command(app, command, "export", "write a trained network in a format of other programs",
                  [arguments] { return run_export(*arguments); });
  add_network_options(*sub, arguments->network);
  sub->add_option("-o,--output", arguments->output,
                  "FILE.safetensors (PyTorch), .weights.h5 (Keras 3), .h5 (Keras 2) or .onnx")
      ->required();
  sub->add_option("--batch", arguments->batch, "batch size of an ONNX file; 0: any")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
}

}  // namespace tessera
