#include "tessera/models/run/weight_guess.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/run/weight_layout.h"
#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// By name.
using Elements = std::map<std::string, uint64_t>;

Elements elements_in(const WeightSource& source) {
  Elements elements;
  for (const SourceTensor& tensor : source.tensors())
    if (tensor.usable) elements[tensor.name] = tensor.elements();
  return elements;
}

Tensors tensors_of(const Store& store) {
  Tensors all = store.parameters();
  all.insert(all.end(), store.buffers().begin(), store.buffers().end());
  return all;
}

// The layer of the logits may be for another number of classes in the file.
double likeness(const Elements& file, const Tensors& tensors, const std::string& head, bool own,
                const NameTable& names) {
  size_t same = 0;
  std::set<std::string> all;
  for (const Tensor& tensor : tensors) all.insert(persistent_name(tensor));
  for (const Tensor& tensor : tensors) {
    const std::string& name = persistent_name(tensor);
    const auto found = file.find(own ? name : names.theirs(with_foreign_leaf(name, all)));
    if (found == file.end()) continue;
    const auto elements = static_cast<uint64_t>(tensor.shape().elements());
    same += found->second == elements ||
            (name.starts_with(head) &&
             found->second % (elements / static_cast<uint64_t>(tensor.shape()[0])) == 0);
  }
  return static_cast<double>(same) / static_cast<double>(std::max(file.size(), tensors.size()));
}

// As it was published: for images of 224 x 224 pixels, or of CIFAR's size.
ModelOptions published_options(const std::string& network) {
  if (name_tables(network).empty()) return {};
  return {.height = 224, .width = 224, .channels = 3, .classes = 1000};
}

}  // namespace

std::string what_weights_look_like(const WeightSource& source, const std::string& but) {
  constexpr double kAlike = 0.9;
  if (source.form() == WeightForm::keras) return "";  // whose names are those of any network
  const bool is_own = source.form() == WeightForm::own;
  const Elements file = elements_in(source);
  double best = kAlike;
  std::string text, best_network;
  for (const std::string& network : model_names()) {
    Store store;
    std::unique_ptr<Module> made;
    try {
      made = make_model(network, published_options(network), store);
    } catch (const Error&) {
      continue;  // not for images of this size
    }
    const Tensors tensors = tensors_of(store);
    const std::string& last = persistent_name(store.parameters().back());
    const std::string head = last.substr(0, last.rfind('.') + 1);
    std::vector<NameTable> tables = name_tables(network);
    if (tables.empty() || is_own) tables = {{"Tessera", network}};
    for (const NameTable& table : tables) {
      const double alike = likeness(file, tensors, head, is_own, table);
      if (alike <= best) continue;
      best = alike, best_network = network;
      text = fmt::format(" It looks like {}'s {}, which is model.name={} here.", table.program,
                         table.network, network);
    }
  }
  return best_network == but ? "" : text;
}

}  // namespace tessera
