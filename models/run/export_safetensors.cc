#include "tessera/models/run/export_safetensors.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/data/formats/safetensors.h"
#include "tessera/models/run/foreign_weights.h"
#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

std::string export_safetensors(const TrainedNetwork& trained, const std::string& path) {
  const Config& config = trained.config;
  const ImageShape& image = trained.image;
  const std::vector<WeightLayout> layouts =
      weight_layouts(*trained.network, trained.store, image.height, image.width, image.channels,
                     config.model.classes);
  const std::vector<NameTable>& tables = name_tables(config.model.name);
  const bool is_known = config.model.layers.empty() && !tables.empty();
  const NameTable names = is_known ? tables[0] : NameTable{"", config.model.name};
  std::vector<SafeTensor> tensors;
  std::vector<std::vector<float>> values;
  const std::vector<ForeignWeight> weights = foreign_weights(WeightForm::pytorch, layouts, names);
  for (size_t i = 0; i < layouts.size(); ++i) {
    tensors.push_back(safe_tensor({weights[i].name, "float32", weights[i].shape}));
    values.push_back(
        weights[i].in_their_order(trained.store.find(layouts[i].name).to_vector<float>()));
  }
  // The first is what readers of PyTorch's ask for.
  const std::string front = safetensors_front(
      tensors, {{"format", "pt"}, {"model", config.model.name}, {"inference", trained.inference}});
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(front))};
  for (const std::vector<float>& one : values) parts.push_back(std::as_bytes(std::span(one)));
  if (const FileFault fault = write_durably(file_system(), path.c_str(), parts))
    throw CheckpointError(fmt::format("export '{}': cannot be written (to {} it: {})", path,
                                      fault.doing, std::strerror(fault.error)));
  return is_known ? fmt::format("{}'s {}", names.program, names.network) : "our own";
}

}  // namespace tessera
