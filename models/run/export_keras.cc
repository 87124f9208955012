#include "tessera/models/run/export_keras.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/run/foreign_weights.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/hdf5_writer.h"

namespace tessera {

void export_keras(const TrainedNetwork& trained, const std::string& path) {
  const ImageShape& image = trained.image;
  const std::vector<WeightLayout> layouts =
      weight_layouts(*trained.network, trained.store, image.height, image.width, image.channels,
                     trained.config.model.classes);
  const std::vector<ForeignWeight> weights = foreign_weights(WeightForm::keras, layouts, {});
  const std::string partial = path + ".partial";
  try {
    Hdf5Writer file(partial);
    for (size_t i = 0; i < layouts.size(); ++i) {
      const std::vector<float> ours = trained.store.find(layouts[i].name).to_vector<float>();
      const std::vector<float> theirs = weights[i].in_their_order(ours);
      file.array({weights[i].name, "float32", weights[i].shape}, theirs.data());
    }
    file.close();
    std::filesystem::rename(partial, path);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw CheckpointError(fmt::format("export '{}': cannot be written: {}", path, error.what()));
  }
}

}  // namespace tessera
