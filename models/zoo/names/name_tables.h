// What other programs call the parts of the networks of the zoo, for files of weights that they
// wrote or are to read. A network that has its twin elsewhere gets a line in name_tables.cc; its
// renamed modules stand in a file of their own beside it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct NameTable {
  std::string program;  // "torchvision", "timm"
  std::string network;  // what it calls the network: "mobilenetv2_100"
  // Paths of modules, ours and theirs; what lies within a module follows it. A module without an
  // entry has the same path there. The last part of a name is PyTorch's (our gamma is its weight).
  std::vector<std::pair<std::string, std::string>> modules = {};
  // Modules that their files may have and that are not needed: heads of training.
  std::vector<std::string> unused = {};
  // Our modules whose 1x1 filters are linear layers there: [o, i] and not [o, i, 1, 1].
  std::vector<std::string> linear = {};

  // The path or name there of one of ours.
  std::string theirs(std::string_view ours) const;
  bool is_unused(std::string_view theirs) const;
  bool is_linear(std::string_view ours) const;
};

// Of a network of the zoo, that which is written first; empty where nobody else has it.
const std::vector<NameTable>& name_tables(std::string_view network);

// Where names or forms differ.
NameTable timm_vgg(int depth);          // vgg.cc
NameTable timm_mobilenet_v2();          // mobilenet.cc
NameTable timm_efficientnet(int size);  // efficientnet.cc
NameTable timm_convnext_tiny();         // convnext.cc

}  // namespace tessera
