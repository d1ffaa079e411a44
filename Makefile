# `make` alone prints what there is. Every target works from a fresh checkout; `dev` runs first where it is needed.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python

KERNELS := $(wildcard src/penstock/kernels/*.py src/penstock/kernels/*.pxd src/penstock/kernels/*.pyx) \
	$(wildcard src/penstock/gateways/wire/*.h src/penstock/gateways/wire/*.pyx)
# Compiled is what has C types: a .pyx, or a .py with a .pxd of the same name.
COMPILED := $(wildcard src/penstock/kernels/*.pyx) $(patsubst %.pxd,%.py,$(wildcard src/penstock/kernels/*.pxd))
QUICK_TESTS := $(wildcard tests/unit tests/property tests/judge)
PURE_TESTS := $(wildcard tests/unit/kernels tests/unit/batch tests/unit/log)

# A file is run by one of them, as its fixtures are; in the order of tests/support/order.py.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

# Tests start hundreds of interpreters: what they import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

# A stamp a step, so that running needs no tool of developers, and a changed kernel is compiled without asking pip again.
VENV_STAMP := $(VENV)/.made
RUN_STAMP := $(VENV)/.run-installed
KERNELS_STAMP := $(VENV)/.kernels-compiled
SPARK_STAMP := $(VENV)/.spark-installed
TOOLS_STAMP := $(VENV)/.tools-installed
DEV := $(TOOLS_STAMP) $(KERNELS_STAMP)

.DEFAULT_GOAL := help
# The last lines of `make test` are those of its last pytest run, with -j too.
.NOTPARALLEL:
.PHONY: help dev build lint check test test-pure peers sim soak bench run tour annotate sizes clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "PYTHON=python3.12 picks the interpreter of a new $(VENV); HYPOTHESIS_PROFILE=nightly runs 20000 examples a property."

dev: $(DEV)  ## make .venv: package editable, kernels compiled, all tools; does nothing when up to date

$(VENV_STAMP):
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or \
		sys.exit("Penstock needs Python 3.11 or newer, and %s is %d.%d: name another one, as in `make dev PYTHON=python3.12`" \
		% ((sys.executable,) + sys.version_info[:2]))'
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@$(PY) -m pip install --quiet --disable-pip-version-check 'pip>=25.1'  # the first that knows dependency groups
	@touch $@

$(RUN_STAMP): $(VENV_STAMP) pyproject.toml
	@$(PY) scripts/install.py run
	@touch $@

$(KERNELS_STAMP): $(RUN_STAMP) setup.py $(KERNELS)
	@echo "compiling the kernels: about half a minute on two processors"
	@$(PY) setup.py --quiet build_ext --inplace
	@touch $@

$(SPARK_STAMP): $(RUN_STAMP)
	@$(PY) scripts/install.py spark
	@touch $@

$(TOOLS_STAMP): $(RUN_STAMP)
	@$(PY) scripts/install.py dev
	@touch $@

build: $(RUN_STAMP)  ## compile the kernels in place
	$(PY) setup.py build_ext --inplace

lint: $(DEV)  ## ruff (rules and format), mypy, layering
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo

check: lint  ## lint, unit and property tests, the judge: under 3 minutes, before every commit
	$(PY) -m pytest $(WORKERS) -m 'not faults' $(QUICK_TESTS)

test: lint test-pure peers  ## everything: lint, uncompiled kernels, then all tests with faults and installation
	$(PY) -m pytest $(WORKERS)

peers: $(VENV_STAMP)  ## programs that tests hold Penstock against, from Debian's packages; tests say which are absent
	-$(PY) scripts/install_peers.py mosquitto paho-c promtool chromium node rabbitmq

test-pure: $(DEV)  ## the tests of kernels, batches and log on uncompiled kernels
	PENSTOCK_PURE=1 $(PY) -m pytest $(WORKERS) -m 'not faults' $(PURE_TESTS)

sim: $(DEV)  ## one walk of the crash model again: make sim SEED=n
	$(PY) -m tests.sim.soak_crash --seed $(SEED)

soak: $(DEV)  ## eight hours of crashes, faults and fuzzing; stops by itself (python -m tests.soak --help for less)
	$(PY) -m tests.soak

bench: $(DEV)  ## benchmarks, each with its ratio to a named baseline
	$(PY) -m bench

run: tour  ## the tour, then a server on this machine, seen at work until Ctrl-C; RUN='--seconds 60' ends it by itself
	@if $(PY) -c 'from penstock.spark.java import java_home; java_home()' 2>/dev/null; then $(MAKE) --no-print-directory $(SPARK_STAMP) || \
		echo "Spark could not be installed: the pipeline is left out"; fi
	$(PY) -m examples.scene --pipeline examples/pipeline/devices.yaml $(RUN)

tour: $(KERNELS_STAMP)  ## a tour of what a log and a queue promise
	$(PY) -m examples.tour

annotate: $(RUN_STAMP)  ## Cython's view of the kernels as HTML in build/annotate; yellow lines are review matter
	@mkdir -p build/annotate
	@cd src && for kernel in $(patsubst src/%,%,$(COMPILED)); do \
		$(abspath $(VENV))/bin/cython -3 --annotate -X annotation_typing=False "$$kernel" \
			-o ../build/annotate/"$$(basename "$${kernel%.*}")".c || exit 1; \
	done
	@ls build/annotate/*.html

sizes: $(VENV_STAMP)  ## long files, long functions, comment share, duplicates: read at review, never a gate
	@$(PY) scripts/sizes.py

clean:  ## remove what was built, and caches; .venv stays
	rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis $(KERNELS_STAMP)
	find src -name '*.so' -delete
	find $(wildcard src tests bench examples scripts) -name __pycache__ -type d -prune -exec rm -rf {} +
