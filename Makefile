# The commands of a clone; `make` without a target lists them. They need git, make and Python 3.10 or later with venv.

VENV := .venv
BIN := $(VENV)/bin
# To choose a Python: make PYTHON=python3.12 … The default is the first of these that is installed and new enough.
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$each && break; done)
# The pinned versions apply to installed packages and to build dependencies; pip 25.3 has a variable for each.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(BIN)/python -m pip install --quiet
# Arguments of the command: make run ARGS="--web.listen-address=:19820", make test ARGS="tests/config -x"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test test-all coverage lint wheel bench review docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.installed ## Serve this machine's accelerators, or a simulated node if it has none (ARGS="…")
	@.ci/serve.sh $(ARGS)

test: $(VENV)/.installed-dev ## Run the quick tests, in five minutes (ARGS="tests/config -x" selects tests, of all levels)
	@$(BIN)/python .ci/run_tests.py $(or $(ARGS),--level quick)

test-all: $(VENV)/.installed-dev ## Also run the tests that need other programs, and install these: browser, Prometheus, Slurm, packages
	@.ci/needs.sh
	@$(BIN)/python .ci/run_tests.py --level quick --level installed $(ARGS)

coverage: $(VENV)/.installed-dev ## Measure the lines and branches that the tests reach
	@.ci/needs.sh
	@$(BIN)/python .ci/run_tests.py --coverage --level quick --level installed --ignore tests/contract

lint: $(VENV)/.installed-dev ## Check style, types, import directions and the project's own rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy .ci/*.py
	$(BIN)/lint-imports
	$(BIN)/python .ci/checks.py

wheel: $(VENV)/.installed-dev ## Build the wheel, install it in an empty environment and test it there
	@.ci/wheel.sh

.PHONY: deb test-systemd test-bare
deb: ## Build the Debian package for this machine's Debian into build/deb
	@deploy/debian/build.sh

test-systemd: ## Build the Debian package and test it under a real systemd (as root)
	@tests/systemd/run.sh

test-bare: $(VENV)/.installed-dev ## Run the first commands of README.md in a minimal Debian (as root)
	@command -v debootstrap >/dev/null || .ci/apt-install.sh debootstrap
	$(BIN)/python -m pytest tests/packaging/bare_debian.py $(ARGS)

.PHONY: bundle container test-install
bundle: $(VENV)/.installed-dev ## Build the offline bundle for nodes without a network (ARGS=aarch64)
	@deploy/bundle.sh $(ARGS)

container: ## Build the container image with the installed engine (ENGINE=podman)
	@ENGINE="$(ENGINE)" deploy/container/build.sh $(ARGS)

test-install: bundle ## Install the bundle, a checkout and the wheel, and test the bundle under a real systemd (as root)
	@tests/packaging/install_for_real.sh

.PHONY: release
release: $(VENV)/.installed-dev ## Build all parts of a release into dist/; the same commit gives the same bytes
	@$(BIN)/python .ci/release_ready.py
	@.ci/release.sh

bench: $(VENV)/.installed-dev ## Measure the cost and compare it with alternatives (ARGS=--quick for a short run)
	@$(BIN)/python benchmarks/bench.py $(ARGS)

review: $(VENV)/.installed-dev ## Show each capture with the report that its parser makes (ARGS=rocm)
	@$(BIN)/python tests/review.py $(ARGS)

.PHONY: chart test-helm
chart: ## Package the Helm chart into dist/
	@deploy/chart.sh

test-helm: $(VENV)/.installed-dev ## Lint, render and validate the Helm chart (installs its tools with Go)
	@.ci/helm-tools.sh
	PATH="$(CURDIR)/build/helm/bin:$$PATH" $(BIN)/python -m pytest --override-ini python_files='*.py' tests/helm $(ARGS)

.PHONY: page-pictures
page-pictures: $(VENV)/.installed-dev ## Draw the live page into docs/images (needs Chromium)
	@PYTHONPATH=tests $(BIN)/python -m page.pictures

.PHONY: dashboards-preview
dashboards-preview: $(VENV)/.installed-dev ## Draw the dashboards into docs/images (needs Node.js, Chromium and Prometheus)
	@$(BIN)/python .ci/preview.py $(ARGS)

.PHONY: test-long mutants fuzz audit
SEED ?= 1
COUNT ?= 120
test-long: $(VENV)/.installed-dev ## Run the long tests: more inputs, faults, load, simulated days (ARGS="-k kill")
	@.ci/needs.sh
	@$(BIN)/python .ci/run_tests.py --level long $(ARGS)
	$(BIN)/python -m pytest --durations=5 -rP $(sort $(wildcard tests/*/long_*.py)) $(ARGS)

mutants: $(VENV)/.installed-dev ## Measure how many small changes of the product the tests detect (SEED=1 COUNT=120)
	@mkdir -p build
	$(BIN)/python .ci/mutants.py draw $(SEED) $(COUNT) build/drawn.json
	$(BIN)/python .ci/mutants.py reach build/drawn.json build/learnt.json
	$(BIN)/python .ci/mutants.py try build/drawn.json build/learnt.json build/verdicts.json

fuzz: losses $(VENV)/.installed-dev ## Fuzz parsers, files and the web side (FUZZ_SECONDS=60 FUZZ_SEED= FUZZ_ONLY=)
	@PYTHONPATH=tests $(BIN)/python -m fuzz.run

.PHONY: losses
losses: $(VENV)/.installed-dev ## Remove each line, cell and end of each capture: no number may change its meaning (LOSSES_ONLY=rocm-smi)
	@PYTHONPATH=tests $(BIN)/python -m contract.losses.run

audit: $(VENV)/.installed-dev ## Check dependencies, write build/sbom.json, look up known vulnerabilities (ARGS=--offline)
	@.ci/audit.sh $(ARGS)

docs: $(VENV)/.installed-dev ## Rewrite the generated files: reference pages, rules, dashboards (RUNBOOKS=https://… for the links in alerts)
	$(BIN)/python .ci/generate.py

clean: ## Remove all files that make created
	rm -rf grafana/preview/node_modules
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
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: what the dashboards are made with needs Python 3.11; make clean, then make PYTHON=python3.11 …" >&2; exit 1; }
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@
