# A few words for everything. `make all` is what CI runs.
PYTHON ?= python
export OMP_NUM_THREADS ?= 2

.PHONY: setup check test bench docs all

setup:  ## install the package, and all that its tests, experiments and docs need
	$(PYTHON) -m pip install torch==2.13.0
	$(PYTHON) -m pip install -e ".[dev]"

check:  ## format, lint, types, floors
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	lint-imports

test:  ## everything, the slow tests too, on two cores
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2

bench:  ## every performance claim, measured side by side
	$(PYTHON) -m benchmarks fitting --json
	$(PYTHON) -m benchmarks sorting --json
	$(PYTHON) -m benchmarks learning --json

docs:  ## warnings are errors; the gallery runs
	$(PYTHON) -m sphinx -W --keep-going -b html docs docs/_build/html

all: check test docs
