// Translates a configuration for the floors below: how ops compute, what data is read and how.
// Thread-safe.
#pragma once

#include <functional>

#include "tessera/models/config/config.h"
#include "tessera/models/data/loader.h"
#include "tessera/runtime/context.h"

namespace tessera {

// Returns how the configuration's ops compute.
Settings settings_of(const Config& config);
DataSource data_source(const Config& config);
Transforms make_transforms(const DataConfig& data);
Mix make_mix(const DataConfig& data);  // mixup and cutmix of the same list
// Returns the images of a step of an evaluation: eval.batch, or else those of a part of a training
// step.
int64_t evaluation_batch(const Config& config);
// How a loader reads: batches as configured, and for training in a random order, changed and mixed.
// `device`: that the steps run on; those of a GPU read a batch while the next is made ready.
LoaderOptions loader_options(const Config& config, bool training, Device device = {});
// The shape of an image before augmentation; only hdf5 is opened for it, and a folder whose
// pictures decide about the channels. Throws ConfigError for a
// data set that is not known, DataError.
ImageShape image_shape(const DataConfig& data);
// That of the configuration, or else the data set's own, or else (a set of which nobody told) what
// `otherwise` tells. Throws ConfigError: not one for each channel.
using NormalizationOf = std::function<Normalization(const Dataset& train)>;
Normalization normalization_of(const Config& config, const Dataset& data,
                               const NormalizationOf& otherwise = {});
// What programs took that knew of no measuring: for runs and checkpoints of theirs.
Normalization former_normalization(const Config& config, const Dataset& data);
// What is to be said where the model has more classes than the data; empty where it has not.
std::string spare_classes(const Config& config, const Dataset& data);
// Throws ConfigError when the data has more classes than the model.
void check_classes(const Config& config, const Dataset& data);

}  // namespace tessera
