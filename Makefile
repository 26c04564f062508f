# Tilewright: everything happens in ./.venv; nothing outside the checkout is touched.
#
#   make demo      run the bundled network on the simulated accelerator (sets up only what that needs)
#   make setup     .venv with the group `test`: all groups but board and torch, and the tools
#   make test      the quick tests         make test-all   the slow ones too
#   make test-board   what a board loads, on 32-bit and 64-bit ARM by qemu-user and on Python 3.10 with NumPy 1.21
#   make lint      ruff and mypy           make bench      the benchmarks, one after another
#   make coverage PARTS="isa sim" [TESTS=...] [INTERPRETED=1]   lines and branches of these parts that quick tests reach
#   make docs      the documentation site, in build/docs/index.html
#   make bitstream BOARD=pynq-z2 [SOURCE=rtl|hls] [CONFIG=file.toml]   an overlay, with Vivado (docs/boards.md)
#   make bitstream BOARD=pynq-z2 TOOLCHAIN=openxc7 [AT_LEAST=MHZ]   the same with open tools, for Zynq-7000; experimental
#   make rtl-report   synthesis and timing of every preset whose RTL has changed (hours); results in hw/reports
#   make calibrate    the LUT and FF models fitted anew on whole designs, those mapped again whose RTL has changed
#   make wheels    wheels with the compiled host library for x86-64, arm64 and armv7, in dist
#   make clean     remove caches and build output (not .venv)
#
# PYTHON=python3.12 make setup    chooses the interpreter of a new .venv.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
PY := $(VENV)/bin/python

# A stamp is named by the checksum of pyproject.toml: changed requirements install again, an untouched or
# merely re-dated file does not. It is written last, so a setup that was cut short starts over.
KEY := $(shell cksum pyproject.toml | cut -d' ' -f1)
ALL_STAMP := $(VENV)/.tilewright-all-$(KEY)
DEMO_STAMP := $(VENV)/.tilewright-demo-$(KEY)

# What pip cannot bring is looked for first, by the Python that will run everything.
FIRST = $(if $(wildcard $(VENV)/bin/pip),$(PY),$(PYTHON))
define look
@command -v $(FIRST) >/dev/null || { echo "There is no $(FIRST): install Python 3.11 or newer, or name another," \
  "for example: make setup PYTHON=python3.12" >&2; exit 1; }
@$(FIRST) tests/preflight.py $(1)
endef

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help check-machine setup demo test test-all test-board lint docs coverage bench bitstream rtl-report calibrate wheels clean

help:
	@sed -n 's/^#   make/  make/p' Makefile

check-machine:
	$(call look,)

setup: check-machine $(ALL_STAMP)

$(ALL_STAMP): | $(VENV)/bin/pip
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@rm -f $(VENV)/.tilewright-*
	@touch $@
	@echo "$(VENV) is ready: . $(VENV)/bin/activate"

$(DEMO_STAMP): | $(VENV)/bin/pip
	@echo "setting up $(VENV) for the demo (once; about a minute)"
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[examples]'
	@touch $@

# An existing .venv is kept as it is. pip is what shows that creating it went through to the end.
$(VENV)/bin/pip:
	$(call look,demo)
	@$(PYTHON) -m venv $(VENV)

demo: $(if $(wildcard $(ALL_STAMP)),,$(DEMO_STAMP))
	@$(PY) examples/digits/demo.py

test: setup
	$(PY) -m pytest -q -m "not slow" -n $(JOBS)

test-all: setup
	$(PY) -m pytest -q -n $(JOBS)

# Debian's packages of the other processors, and NumPy, are fetched into build/machines. MACHINES="armhf" chooses.
test-board: setup
	$(PY) -m tests.machines $(MACHINES)

lint: setup
	@failed=0; for check in "ruff check ." "ruff format --check ." "mypy"; do \
	  echo "$$check"; $(VENV)/bin/$$check || failed=1; done; exit $$failed

# Warnings are errors: a link that leads nowhere, a docstring that is no reStructuredText.
docs: setup
	$(PY) -m sphinx -q -W --keep-going -d build/doctrees docs build/docs

# Functions that Numba compiles are left out; INTERPRETED=1 runs the simulator's without Numba, and counts them. TESTS are
# those of the parts' names. What tests run in processes of their own counts, unless these are killed.
comma := ,
space := $() $()
PARTS ?= isa sim runtime jit
TESTS ?= $(foreach part,$(PARTS),tests/$(part))
MEASURED := --rcfile=tests/campaigns/coverage.ini
coverage: setup
	@rm -f build/coverage build/coverage.*
	$(if $(INTERPRETED),NUMBA_DISABLE_JIT=1) $(PY) -m coverage run $(MEASURED) --source=$(subst $(space),$(comma),$(strip $(PARTS))) \
	  --data-file=build/coverage -m pytest -q -m "not slow" $(if $(INTERPRETED),-p tests.campaigns.interpreted) $(TESTS)
	$(PY) -m coverage combine -q $(MEASURED) --data-file=build/coverage
	$(PY) -m coverage report --data-file=build/coverage $(if $(INTERPRETED),,$(MEASURED))

# Each bench/bench_*.py is a script of its own and prints what it measured.
bench: setup
	@for script in $(sort $(wildcard bench/bench_*.py)); do echo "== $$script"; $(PY) $$script || exit 1; done

# PROJECT_ONLY=1 writes the folder for a machine that has Vivado, and stops.
BOARD ?= pynq-z2
SOURCE ?= rtl
TOOLCHAIN ?= vivado
bitstream: setup
	@$(PY) -m tilewright.hw.boards build $(BOARD) --source $(SOURCE) $(if $(CONFIG),--config $(CONFIG)) \
	  $(if $(PROJECT_ONLY),--project-only) $(if $(filter-out vivado,$(TOOLCHAIN)),--toolchain $(TOOLCHAIN)) \
	  $(if $(AT_LEAST),--at-least $(AT_LEAST))

# REPORT="tiny vta-64" chooses presets.
rtl-report: setup
	$(PY) -m tilewright.hw.synthesis_report $(REPORT)

# Whole designs of random Configs are kept in bench/results; the weights are fitted on them and on the presets'.
calibrate: setup
	$(PY) -m bench.calibration

wheels: setup
	@for machine in x86_64 aarch64 armv7l; do \
	  TILEWRIGHT_WHEEL=$$machine $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist . || exit 1; done

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis examples/digits/out
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
