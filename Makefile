# Two commands do everything on a machine with Python >= 3.11: make run, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?= --workload bert --gens 200
JOBS ?= 2

# The site is built by MkDocs 1, whose theme announces MkDocs 2.
export NO_MKDOCS_2_WARNING := 1

.PHONY: run test check docs format clean

run: $(STAMP)
	$(BIN)/egrl run $(ARGS)

test: $(STAMP) check
	$(BIN)/python -m pytest -n $(JOBS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet

docs: $(STAMP)
	$(BIN)/mkdocs build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
