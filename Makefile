# Everything a clone needs; `make` alone tells what there is. Wants git, make and Python 3.10 or later with venv.

VENV := .venv
BIN := $(VENV)/bin
# A Python of your own: make PYTHON=python3.12 …
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$each && break; done)
# The pinned versions hold for what is installed and for what builds it; both variables, since pip 25.3 split them.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(BIN)/python -m pip install --quiet
# What goes to the command: make run ARGS="--web.listen-address=:19400", make test ARGS="tests/config -x"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint wheel bench review docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.installed ## Serve this machine's accelerators, or a simulated node when there are none (ARGS="…")
	@.ci/serve.sh $(ARGS)

test: $(VENV)/.installed-dev ## Run all tests that this machine can run, with coverage (ARGS="…")
	@.ci/test.sh $(ARGS)

lint: $(VENV)/.installed-dev ## Check style, types, import directions and the project's own rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy .ci/*.py
	$(BIN)/lint-imports
	$(BIN)/python .ci/checks.py

wheel: $(VENV)/.installed-dev ## Build the wheel, install it elsewhere and test what was installed
	@.ci/wheel.sh

bench: $(VENV)/.installed-dev ## Run the benchmarks
	@set -e; for each in $(wildcard benchmarks/*.py); do echo "== $$each"; $(BIN)/python $$each; done

review: $(VENV)/.installed-dev ## Show what each parser makes of each capture, to be read beside the texts (ARGS=rocm)
	@$(BIN)/python tests/review.py $(ARGS)

docs: $(VENV)/.installed-dev ## Write the generated files anew: reference pages, default configuration
	$(BIN)/python .ci/generate.py

clean: ## Remove everything that make made
	rm -rf $(VENV) .state build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find $(wildcard daemon exporters parsers tests benchmarks .ci) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.10 or later was found; name one: make PYTHON=…" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "make: no virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing what the daemon needs into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@
