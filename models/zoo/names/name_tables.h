// NameTable: what another program calls the parts of a network of the zoo, for files of weights
// that it wrote or is to read. The tables of a network stand in its entry (models/zoo/networks.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct NameTable {
  std::string program;       // "torchvision", "timm"
  std::string network = {};  // what it calls the network: "mobilenetv2_100"
  // Paths of modules, ours and theirs; what lies within a module follows it. A module without an
  // entry has the same path there. The last part of a name is PyTorch's (our gamma is its weight).
  std::vector<std::pair<std::string, std::string>> modules = {};
  // Modules that their files may have and that are not needed: heads of training.
  std::vector<std::string> unused = {};
  // Our modules whose 1x1 filters are linear layers there: [o, i] and not [o, i, 1, 1].
  std::vector<std::string> linear = {};
  // Fills `modules` where they are many: when name_tables() is first called, not at each start.
  std::function<void(NameTable& table)> add_modules = {};

  // The path or name there of one of ours.
  std::string theirs(std::string_view ours) const;
  bool is_unused(std::string_view theirs) const;
  bool is_linear(std::string_view ours) const;
};

// Returns the tables of a network of the zoo, the one that is written first; empty if no other
// program has it.
const std::vector<NameTable>& name_tables(std::string_view network);

// The networks of keras.applications, told by the names of their layers: which of ours reads their
// weights, and why the others cannot. Their shapes say too little: MobileNetV2's are ours, but the
// images are padded elsewhere, so it would compute something else.
struct KerasApplication {
  std::string network;              // "DenseNet121"
  std::vector<std::string> layers;  // it has all of these
  std::string ours;                 // the network of the zoo that reads it; else empty
  std::string apart = {};           // why none does: "has no batch norms"
  double eps = 0;                   // of its batch norms
  std::string fits = {};            // the network of the zoo of the same shapes, where it is apart
};

// nullptr: none of those that are known.
const KerasApplication* keras_application(const std::vector<std::string>& layers);
// The one whose weights fit that network of the zoo but compute something else in it, or nullptr.
const KerasApplication* misfit_of_keras(const std::string& network);

}  // namespace tessera
