# Two commands do everything on a machine with Python >= 3.11: make run, make test.
# make run TORCH_INDEX=https://download.pytorch.org/whl/cpu installs PyTorch without CUDA, which is some gigabytes less.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLUGINS := $(wildcard plugins/*/pyproject.toml)
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
TORCH_INDEX ?=
ARGS ?= --workload bert --gens 200
# As many processes of tests as there are cores, four at most: each makes its own fixtures.
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))

# Where this is set, every process of the tests would compile every file anew.
unexport PYTHONDONTWRITEBYTECODE

# The site is built by MkDocs 1, whose theme announces MkDocs 2.
export NO_MKDOCS_2_WARNING := 1

.PHONY: run quick test test-all check docs format clean

run: $(RUNS)
	$(BIN)/egrl run --report $(ARGS)

# Which tests each runs: the markers in pyproject.toml. `quick` is for every change, `test` is the gate, a release runs `test-all`.
# Without what `check` has run.
PYTEST := $(BIN)/python -m pytest --quiet -n $(JOBS) --dist loadscope --no-loadscope-reorder --ignore tests/test_architecture.py
quick: $(STAMP) check
	$(PYTEST) -m "not slow and not exhaustive" --hypothesis-profile=quick

test: $(STAMP) check
	$(PYTEST)

test-all: $(STAMP) check
	$(PYTEST) -m "" --hypothesis-profile=all
	$(BIN)/python tools/versions.py --jobs $(JOBS)

# The slow ones at once; what each says is shown when it has ended.
check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs=$(JOBS) --output-sync=target types layers sizes site

.PHONY: types layers sizes site
types:
	$(BIN)/mypy
layers:
	$(BIN)/lint-imports
sizes:
	$(BIN)/pytest --quiet tests/test_architecture.py
site:
	$(BIN)/mkdocs build --strict --quiet

docs: $(STAMP)
	$(BIN)/mkdocs build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What running needs; and what developing needs besides, all plug-ins among it.
$(RUNS): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(PIP) --index-url $(TORCH_INDEX) torch)
	$(PIP) --editable .
	touch $(RUNS)

$(STAMP): $(RUNS) $(PLUGINS)
	$(PIP) --editable ".[dev]" $(PLUGINS:%/pyproject.toml=--editable ./%)
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info plugins/*/*.egg-info plugins/*/build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
