# The front door. Everything that is made lies in .venv and build/.
#   make setup | demo | test     on a fresh machine, and again, offline and quickly
#   make core-test | asan        the C core with a C compiler alone
#   make conformance | bench | size | fmt | lint | docs | clean
# PyPI's torch is a CUDA build on most machines; PyTorch's own index has the CPU build, see README:
#   make setup TORCH_PIP_ARGS="--index-url ..."

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
TORCH ?= torch==2.13.0
PIP_ARGS ?=
TORCH_PIP_ARGS ?=
CC ?= cc
JOBS ?= 2
ARGS ?=

py := $(VENV)/bin/python
pip := $(py) -m pip --disable-pip-version-check
export HF_HUB_OFFLINE = 1
export TRANSFORMERS_OFFLINE = 1
.DELETE_ON_ERROR:
.PHONY: setup build demo test core-test asan bench size fmt lint docs conformance clean

# --- setup and build: stamps hold the content they were made from, so a fresh checkout of the same is the same ---

contents = $(shell cat $(1) /dev/null | cksum | tr ' ' -)
requirements := $(sort $(wildcard requirements/*.txt))
sources = $(sort $(shell find core glue python -type f -not -name '*.pyc') CMakeLists.txt pyproject.toml README.md LICENSE)
# $(call if-new,stamp,files,commands): the commands, unless the stamp says that these contents went through them
if-new = @now="$(TORCH) $(call contents,$(2))"; \
  if [ "$$(cat $(1) 2>/dev/null)" = "$$now" ]; then exit 0; fi; set -ex; $(3); echo "$$now" > $(1)

setup: $(py)
	$(call if-new,$(VENV)/.stamp-setup,$(requirements), \
	  $(pip) install -q $(PIP_ARGS) $(TORCH_PIP_ARGS) -c requirements/constraints.txt '$(TORCH)' && \
	  $(pip) install -q $(PIP_ARGS) -c requirements/constraints.txt -r requirements/build.txt -r requirements/run.txt && \
	  $(pip) install -q $(PIP_ARGS) --no-deps -r requirements/packages.txt)

$(py):
	@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed: apt-get install python3-dev python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

build: setup
	$(call if-new,$(VENV)/.stamp-build,$(sources), \
	  PATH="$(abspath $(VENV))/bin:$$PATH" $(pip) install -q $(PIP_ARGS) --no-build-isolation .)

# --- what people ask for ---

demo: build
	$(py) examples/chat.py $(ARGS)

test: build core-test
	$(py) -m pytest -n $(JOBS) $(ARGS)

conformance: build
	$(py) tests/py/conformance.py --all $(ARGS)

bench: build
	$(pip) install -q $(PIP_ARGS) -c requirements/constraints.txt -r requirements/bench.txt
	$(py) bench/bench.py $(ARGS)

docs: build
	$(py) tools/operators.py > docs/operators.md

# --- the core with a C compiler alone: no torch, no Python, no plugin, no CMake ---

warnings := -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
core_flags = -std=c11 -D_GNU_SOURCE -O1 -g -fPIC -fvisibility=hidden $(warnings) -Icore -Itests/c -I$(core_dir) $(SANITIZE)
core_dir := build/core$(if $(SANITIZE),-asan)
core_sources := $(sort $(wildcard core/*/*.c)) tests/c/main.c tests/c/fake_plugin.c
core_objects := $(patsubst %.c,$(core_dir)/%.o,$(core_sources))
core_modules := $(sort $(patsubst %_test,%,$(basename $(notdir $(wildcard core/*/*_test.c)))))

core-test:
	@$(MAKE) -s -j$(JOBS) $(core_dir)/core_tests
	$(core_dir)/core_tests

asan:
	@$(MAKE) core-test SANITIZE="-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined"

$(core_dir)/core_tests: $(core_objects)
	$(CC) $(core_flags) $^ -o $@ -lm -ldl -lpthread

$(core_dir)/%.o: %.c | $(core_dir)/core_tests.inc
	@mkdir -p $(@D)
	$(CC) $(core_flags) -MMD -MP -c $< -o $@

# The list of modules is rewritten when it changes, and not otherwise.
$(core_dir)/core_tests.inc: FORCE
	@mkdir -p $(@D)
	@printf 'TEST(%s)\n' $(core_modules) > $@.new
	@if cmp -s $@ $@.new; then rm $@.new; else mv $@.new $@; fi
.PHONY: FORCE
-include $(core_objects:.o=.d)

# --- upkeep ---

c_files = $(shell git ls-files 'core/*.[ch]' 'glue/*.[ch]' 'glue/*.cpp' 'tests/c/*.[ch]')

size:
	@python3 tools/size.py $(ARGS)

fmt: setup
	$(VENV)/bin/clang-format -i $(c_files)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

lint: setup
	$(VENV)/bin/clang-format --dry-run -Werror $(c_files)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

clean:
	rm -rf build $(VENV)/.stamp-build
