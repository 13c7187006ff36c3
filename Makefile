# `make demo` and `make test` work from a fresh clone: they build .venv first and reuse it afterwards.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Real data sets are optional: tests that need them skip with a message where they are absent.
ifneq ($(wildcard ../shared/data/MANIFEST.json),)
export CONCRETE_SCORE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup demo test test-slow test-faults test-browser lint bench dist docs docs-links clean
setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

demo: $(READY)
	$(BIN)/csm demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 -q -m "not slow and not browser"

test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 -q -m "slow and not browser"

# Kills, full disks, races, damaged files, hostile runs and options; FULL=1 at full size, in units that are stored in
# results/faults and not done again. The reduced size is a part of test-slow.
test-faults: $(READY)
ifdef FULL
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --full --out results/faults
else
	$(BIN)/python -m pytest -q -m slow tests/faults
endif

# Needs a Chromium on the machine (Debian: apt-get install chromium); without one the tests skip and say so.
test-browser: $(READY)
	PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[browser]"
	$(BIN)/python -m pytest -q -rs -m browser tests/browser

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/csm bench

# Wheel and sdist in dist/, checked: what they hold, and what an index would say of them.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

# The site, in build/docs: every page's code is executed, a warning is an error, and nothing is fetched but packages.
# The reader's machine needs no network either. QUICK=1 executes no notebook.
docs: $(READY)
	PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	$(if $(QUICK),,OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q docs)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -j 2 -q -d build/doctrees $(if $(QUICK),-D nb_execution_mode=off) docs build/docs
	$(BIN)/python docs/_ext/check_site.py build/docs

# Links to elsewhere; needs a network.
docs-links: $(READY)
	PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	$(BIN)/python -m sphinx -b linkcheck -q -D nb_execution_mode=off docs build/docs-links

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist docs/gallery docs/project docs/reference/api docs/reference/names.md
