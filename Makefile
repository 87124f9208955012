# Two commands for newcomers: `make train` and `make test`. Everything else is plain CMake: see
# CMakePresets.json. CMAKE_FLAGS adds settings (CMAKE_FLAGS=-DTESSERA_STRICT=ON), CONFIG names the
# configuration to train, BUILD a folder for all outputs, if the checkout must not be written.
BUILD ?= build/release
CMAKE_FLAGS ?=
CONFIG ?= models/configs/quickstart.yaml
# The quickstart overwrites its run folder; other trainings are not lost by running them twice.
TRAIN_FLAGS ?= $(if $(filter %/quickstart.yaml,$(CONFIG)),--overwrite) \
  $(if $(filter build/release,$(BUILD)),,run.dir=$(call quoted,$(BUILD)/runs/$(basename $(notdir $(CONFIG)))))

# The number of compilers: one per processor, but each with 1 GiB of free memory.
MEMINFO ?= /proc/meminfo
JOBS ?= $(shell awk -v n=$$(nproc) '/^MemAvailable/ {m = int($$2 / 1048576)} \
  END {n = m < n ? m : n; print n < 1 ? 1 : n}' $(MEMINFO))

# "[ 42%, 63.1s]": the progress of a build and its time so far.
export NINJA_STATUS ?= [%p, %es]$(empty) $(empty)
quoted = '$(subst ','\'',$(1))'

.PHONY: train test configure

train: configure
	@echo "Building the trainer: a few minutes the first time, on two cores; seconds after that."
	cmake --build $(call quoted,$(BUILD)) --target trainer -j $(JOBS)
	$(call quoted,$(BUILD)/bin/trainer) --config $(call quoted,$(CONFIG)) $(TRAIN_FLAGS)

test: configure
	@echo "Building the programs and the tests: some minutes the first time, on two cores."
	cmake --build $(call quoted,$(BUILD)) -j $(JOBS)
	ctest --test-dir $(call quoted,$(BUILD)) --output-on-failure -j 2

configure:
	@mkdir -p $(call quoted,$(BUILD)) && test -w $(call quoted,$(BUILD)) || \
	  { echo "make: $(BUILD) cannot be written; name a folder that can: make BUILD=/elsewhere $(or $(MAKECMDGOALS),train)" >&2; exit 1; }
	tools/setup.sh
	cmake --preset release -B $(call quoted,$(BUILD)) $(CMAKE_FLAGS)
