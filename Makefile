# Two words for newcomers: `make train` and `make test`. Everything else is plain CMake: see
# CMakePresets.json. CMAKE_FLAGS adds settings (CMAKE_FLAGS=-DTESSERA_STRICT=ON), CONFIG names what
# to train.
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
CONFIG ?= models/configs/quickstart.yaml
# The quickstart may be run again and again; other trainings are not lost by running them twice.
TRAIN_FLAGS ?= $(if $(filter %/quickstart.yaml,$(CONFIG)),--overwrite)

.PHONY: train test configure

train: configure
	cmake --build --preset release --target trainer -j $(JOBS)
	build/release/bin/trainer --config $(CONFIG) $(TRAIN_FLAGS)

test: configure
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j 2

configure:
	tools/setup.sh
	cmake --preset release $(CMAKE_FLAGS)
