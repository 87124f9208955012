// predict: `trainer predict` as a separate program, for computers that only run inference.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/predict.h"

int main(int argc, char** argv) {
  using namespace tessera;
  begin_program();
  CLI::App app("Classifies pictures with a trained network.", "predict");
  PredictOptions options;
  add_predict_options(app, options);
  try {
    app.parse(argc, argv);
    return end_program("predict", predict(options));
  } catch (const CLI::ParseError& error) {
    return print_exit(app, error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    print_error(fmt::format("predict: {}", error.what()));
    return error.exit_code();
  } catch (const std::exception& error) {
    return end_program("predict", error);
  }
}
