# Two words for newcomers: `make train` and `make test`. Everything else is plain CMake: see
# CMakePresets.json. CMAKE_FLAGS adds settings (CMAKE_FLAGS=-DTESSERA_STRICT=ON), CONFIG names what
# to train.
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
CONFIG ?= models/configs/quickstart.yaml
# The quickstart may be run again and again; other trainings are not lost by running them twice.
TRAIN_FLAGS ?= $(if $(filter %/quickstart.yaml,$(CONFIG)),--overwrite)

# "[ 42%, 63.1s]": how far a build is, and for how long it has been going on.
export NINJA_STATUS ?= [%p, %es]$(empty) $(empty)

.PHONY: train test configure

train: configure
	@echo "Building the trainer: a few minutes the first time, on two cores; seconds after that."
	cmake --build --preset release --target trainer -j $(JOBS)
	build/release/bin/trainer --config $(CONFIG) $(TRAIN_FLAGS)

test: configure
	@echo "Building the programs and the tests: some minutes the first time, on two cores."
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j 2

configure:
	tools/setup.sh
	cmake --preset release $(CMAKE_FLAGS)
