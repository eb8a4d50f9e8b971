# Everything here works on a fresh machine that has Python 3.11 or later, and bash for Spark's own
# scripts: the first target makes .venv and installs the project into it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
# Empty: take the newest versions that pyproject.toml allows.
CONSTRAINTS := constraints.txt

# What tests share, benchmarks and scripts of docs: as strict as the package itself.
TYPED_SCRIPTS = $(shell find tests benchmarks docs -name '*.py' \
  ! -name 'test_*' ! -name 'conftest.py' ! -path 'tests/peer/*')

SWEEP_PROFILE ?= faulty
SWEEP_SEEDS ?= 0:500
SWEEP_OUT ?= results/$(SWEEP_PROFILE)-$(subst :,-,$(SWEEP_SEEDS))

.PHONY: help test test-slow lint format speed sweep sweep-smoke plot failures ci clean

help:
	@echo "make test    the test suite (without the tests marked slow)"
	@echo "make sweep   $(SWEEP_SEEDS) of $(SWEEP_PROFILE) on local Spark, into $(SWEEP_OUT)"
	@echo "make lint    format, lint, types, and which layer imports which"
	@echo "make speed   the fixed workloads against the last release's result"
	@echo "make ci      all of it, with the slow tests"

# A process more than cores; what a file's tests share (a Spark session, a sweep) is made once, and
# long files begin first (conftest.py).
test: $(INSTALLED)
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

# Test by test; those on Spark file by file, whose tests share a session.
test-slow: $(INSTALLED)
	$(BIN)/pytest -m slow -n auto --dist loadfile --no-loadscope-reorder

lint: $(INSTALLED)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy $(TYPED_SCRIPTS)
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Two measurements of the same commit, an hour apart on a shared machine, differ by up to an eighth,
# two checkouts that take turns by a fiftieth. A step is 1.19 times as fast as in the last release.
# Leaps leave the cheap steps out, so that each that remains is dearer: a seed is what counts.
speed: $(INSTALLED)
	$(BIN)/python benchmarks/compare.py --released --at-least 0.95

sweep: $(INSTALLED)
	$(BIN)/rebalance-sim sweep --profile $(SWEEP_PROFILE) --seeds $(SWEEP_SEEDS) --out $(SWEEP_OUT)

# A few seeds, through the same door, into a folder that is thrown away.
sweep-smoke: $(INSTALLED)
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	  $(BIN)/rebalance-sim sweep --profile $(SWEEP_PROFILE) --seeds 0:40 --out "$$out/sweep"

plot: $(INSTALLED)
	$(BIN)/python docs/draw_rebalance.py
	$(BIN)/python docs/draw_protocols.py

# Shrinks five scenarios: two minutes.
failures: $(INSTALLED)
	$(BIN)/python docs/draw_failures.py

ci: test lint test-slow sweep-smoke speed

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# pyproject.toml decides what is installed, constraints.txt in which version; the sources are used in place.
# Modules are compiled by all cores, where pip does it by one, and ours with them: where
# PYTHONDONTWRITEBYTECODE is set, as in many containers, each process would do it again.
# PySpark comes as sources, half a gigabyte of jars: the wheel made of them does not deflate them again.
$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: '$(PYTHON)' is missing or older than Python 3.11: install one," \
	       "or name it, as in make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make virtual environments (no module ensurepip):" \
	       "on Debian and Ubuntu, apt install python3-venv" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@printf '[bdist_wheel]\ncompression = stored\n' >$(VENV)/wheels.cfg
	DIST_EXTRA_CONFIG=$(abspath $(VENV))/wheels.cfg \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	    --editable '.[dev]' $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib rebalance_sim || :  # templates are not Python
	@touch $@
