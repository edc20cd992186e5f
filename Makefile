# make demo   set up once and show recourse on a small data set
# make test   set up once, then lint, types, import layers and the tests
# make fuzz   attack the library with random problems: SECONDS=600 SEED=1, or ONE=<number> for a single problem
PY ?= python3.11
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
# -qq: errors only; pip warns about every index that does not hold a package.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c $(CONSTRAINTS)

# One thread: OpenMP threads that spin against other processes make small models many times slower.
export OMP_NUM_THREADS ?= 1

# Tests on the larger data sets run where these are found, and are skipped with a message elsewhere.
ifndef TURNABOUT_DATA
ifneq ($(wildcard ../shared/data/.),)
export TURNABOUT_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz lint format bench clean

help:
	@echo "make demo | test | test-slow | fuzz | lint | format | bench | clean"

$(BIN)/python:
	@command -v $(PY) >/dev/null || { echo "$(PY) not found. Hint: make PY=python3.12, or install Python 3.11."; exit 1; }
	$(PY) -m venv $(VENV)

# torch goes first, on its own, so that nothing else can choose its version.
$(VENV)/.core: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) torch
	@$(BIN)/python -c 'import importlib.metadata as m; v = m.version("torch"); \
	print(f"torch {v}" if v.endswith("+cpu") else f"WARNING: torch {v} is not the CPU build. It works, but takes several GB. " \
	"Hint: let pip find a CPU wheel of torch (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL), then make clean and run make again.")'
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e ".[dev]"
	@touch $@

demo: $(VENV)/.core
	@$(BIN)/turnabout demo

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src
	$(BIN)/lint-imports

# A worker for each core, up to four: each holds torch.
test: lint
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

SECONDS ?= 600
SEED ?= 1
fuzz: $(VENV)/.dev
	@PYTHONPATH=tests $(BIN)/python -m fuzz.run $(if $(ONE),--one $(ONE),--seconds $(SECONDS) --seed $(SEED)) $(if $(JSON),--json $(JSON))

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	@set -e; for script in $(wildcard benchmarks/*.py benchmarks/papers/*.py); do echo "== $$script"; $(BIN)/python $$script --small; done

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
