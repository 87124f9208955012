# Two words for newcomers: `make train` and `make test`. Everything else is plain CMake: see
# CMakePresets.json. CMAKE_FLAGS adds settings (CMAKE_FLAGS=-DTESSERA_STRICT=ON), CONFIG names what
# to train.
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
CONFIG ?= models/configs/quickstart.yaml

.PHONY: train test configure

train: configure
	cmake --build --preset release --target trainer -j $(JOBS)
	build/release/bin/trainer --config $(CONFIG)

test: configure
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j 2

configure:
	tools/setup.sh
	cmake --preset release $(CMAKE_FLAGS)
