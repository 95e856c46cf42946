# A few words for everything. `make all` is what must pass; `.ci/run` runs the same words in a fresh environment.
PYTHON ?= python
export OMP_NUM_THREADS ?= 2
WHEEL = SOURCE_DATE_EPOCH=$(BORN) $(PYTHON) -m build --wheel
BORN := $(shell git log -1 --format=%ct)
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"

.PHONY: setup check test bench faults docs sanitize wheel all

setup:  ## install the package, and all that its tests, experiments and docs need
	$(PYTHON) -m pip install torch==2.13.0
	$(PYTHON) -m pip install --constraint constraints-dev.txt -e ".[dev]"

check:  ## format, lint, spelling, types, floors, and that every printed figure is in a result file
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	codespell
	$(PYTHON) -m mypy
	lint-imports
	zizmor --quiet --offline .github/workflows
	$(PYTHON) -m bandit --quiet --configfile pyproject.toml --recursive src
	$(PYTHON) -m experiments.publish --check

test:  ## everything, the slow tests too, on two cores; what compares times has the machine to itself
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 -m "not alone" --durations=30
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -m alone $$(grep -rl "mark\.alone" tests --include="test_*.py")

bench:  ## every performance claim, measured side by side
	$(PYTHON) -m benchmarks fitting --json
	$(PYTHON) -m benchmarks sorting --json
	$(PYTHON) -m benchmarks learning --json
	$(PYTHON) -m benchmarks footprint --json
	$(PYTHON) -m benchmarks likelihoods --json
	$(PYTHON) -m benchmarks layers --json
	$(PYTHON) -m benchmarks scale --json
	$(PYTHON) -m benchmarks cluster --json
	$(PYTHON) -m benchmarks service --json
	$(PYTHON) -m benchmarks hand --json

faults:  ## kills, lost writes, disk errors, flipped bits, bent inputs and requests, counted; goes on where it was cut
	$(PYTHON) -m faults --resume

sanitize:  ## the kernels' tests, with every access to memory checked
	$(PYTHON) -m venv --clear build/sanitize
	$(PYTHON) -c $(SITE) > $$(build/sanitize/bin/python -c $(SITE))/parent.pth
	build/sanitize/bin/python -m pip install --quiet --no-deps --config-settings=cmake.define.AHOP_SANITIZE=ON .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
		ASAN_OPTIONS=detect_leaks=0 build/sanitize/bin/python -P -m pytest -p no:cacheprovider \
		tests/test_footprints.py tests/test_likelihoods.py tests/test_kernels.py tests/laws tests/test_memory.py

wheel:  ## the wheel, built twice: both must be the same, byte for byte
	$(WHEEL) --outdir dist/first
	$(WHEEL) --outdir dist/second
	cmp dist/first/*.whl dist/second/*.whl

docs:  ## warnings are errors; the gallery runs; pages fit a phone and can be read by all, where there is a browser
	$(PYTHON) -m sphinx -W --keep-going -b html docs docs/_build/html
	$(PYTHON) docs/screenshots.py --check

all: check test docs
