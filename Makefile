# Everything happens in .venv of this checkout. `make help` lists the targets.

PYTHON ?= python3
WORKERS ?= 2
TORCH_INDEX ?=
FORCE ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo lint test evidence clean force

PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet
GYMNASIUM_NEXT := 1.4.0

# A half-made environment, or one whose interpreter went away with a system upgrade, is made anew.
$(shell [ ! -e .venv ] || $(PY) -c 'import pip' 2>/dev/null || rm -rf .venv)

# Stamps are named by what the installation depends on, the place of the checkout included (virtual environments hold
# absolute paths): another branch or another folder installs again, nothing else does.
KEY := $(shell (echo '$(CURDIR)'; cat pyproject.toml constraints.txt) | cksum | cut -d' ' -f1)
DEMO_READY := .venv/.ready-demo-$(KEY)
TEST_READY := .venv/.ready-test-$(KEY)
NEXT_READY := .venv/.ready-gymnasium-$(GYMNASIUM_NEXT)

help:
	@echo "make demo      score three agents on the task set 'sample' and write demo/report.html (installs no torch)"
	@echo "make test      ruff, mypy and the whole test suite, on both supported releases of gymnasium"
	@echo "make lint      ruff and mypy alone"
	@echo "make evidence  run every script of benchmarks/ and baselines/; goes on where it stopped; FORCE=1 begins again"
	@echo "make clean     remove .venv, caches and the demo's output"
	@echo "Each installs what it needs into .venv first. Variables:"
	@echo "  PYTHON=python3.12  another interpreter, 3.11 or later"
	@echo "  WORKERS=8          test processes, $(WORKERS) by default"
	@echo "  TORCH_INDEX=URL    package index for torch alone: PyPI's build for Linux brings CUDA along, PyTorch's CPU index does not"

.venv/bin/python:
	@command -v '$(PYTHON)' >/dev/null || \
		{ echo "'$(PYTHON)' was not found: apt install python3-venv, or make PYTHON=/path/to/python"; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed and '$(PYTHON)' is $$('$(PYTHON)' -V): make PYTHON=/path/to/python"; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' cannot make virtual environments: apt install python3-venv"; exit 1; }
	'$(PYTHON)' -m venv .venv

$(DEMO_READY): | .venv/bin/python
	@echo 'Installing agentgym with search and report into .venv (about 0.6 GB) …'
	@$(PIP) -c constraints.txt -e '.[search,report]'
	@rm -f .venv/.ready-demo-*; touch $@

# torch first and by its exact version: what depends on it would else choose the build.
$(TEST_READY): | .venv/bin/python
	@echo 'Installing agentgym with everything that the tests use into .venv …'
	@$(PIP) $(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)') "$$(grep '^torch==' constraints.txt)"
	@$(PIP) -c constraints.txt -e '.[dev]'
	@rm -f .venv/.ready-test-*; touch $@

$(NEXT_READY): | .venv/bin/python
	@$(PIP) --no-deps --upgrade --target .venv/gymnasium-next gymnasium==$(GYMNASIUM_NEXT)
	@touch $@

demo: $(DEMO_READY)
	.venv/bin/agentgym eval sample --agent greedy-prune --agent greedy --agent single-search --out demo
	.venv/bin/agentgym report demo --html demo/report.html

lint: $(TEST_READY)
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

# What touches Gymnasium's API runs on its newest release too. The last line is the whole suite's own summary.
NEXT_TESTS := $(wildcard tests/envs tests/harness tests/rollouts tests/test_registry.py tests/test_testing.py)

test: export OMP_NUM_THREADS = 1
test: export HF_HUB_OFFLINE = 1
test: lint $(NEXT_READY)
	PYTHONPATH='$(CURDIR)/.venv/gymnasium-next' $(PY) -m pytest -q -n $(WORKERS) $(NEXT_TESTS)
	$(PY) -m pytest -q -n $(WORKERS)

# One script, one stamp: a script that was finished is not run again until it changes. Files named _*.py are shared code.
SCRIPTS := $(filter-out $(wildcard benchmarks/_*.py benchmarks/*/_*.py baselines/_*.py), \
	$(wildcard benchmarks/*.py benchmarks/*/*.py baselines/*.py))

evidence: $(SCRIPTS:%.py=.evidence/%.done)

.evidence/%.done: %.py $(if $(FORCE),force) | $(TEST_READY) $(NEXT_READY)
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(PY) $<
	@mkdir -p $(@D); touch $@

force:

clean:
	rm -rf .venv .evidence .mypy_cache .pytest_cache .ruff_cache .hypothesis demo build dist
