// The filters of a `whiten` layer (layers/modules.h), made of training images before the first
// step.
#pragma once

#include "tessera/engine/store.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

// Sets them where the store has such; nothing else is read or done. From 1,024 images spread evenly
// over the set, normalised, as they are without augmentation. Throws DataError for one that cannot
// be read.
void whiten(Store& store, const Dataset& train, const Normalization& normalization);

}  // namespace tessera
