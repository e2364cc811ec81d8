# Everything runs in .venv, from the hash-pinned files below requirements/; nothing global is touched.
# Options for a program go in ARGS: make demo ARGS=--keep

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BENCH := $(VENV)/.bench
# Tests wait more than they compute; each process has servers of its own.
TESTS_AT_ONCE := 3
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help install demo test explore soak containers brokers check format docs screenshots bench figures rules lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## make .venv with everything; .venv/bin/labferry is the command

demo: install ## watch three runs being ferried on this machine, with real servers
	@$(BIN)/labferry demo $(ARGS)

test: install ## run all tests, on real servers that they start themselves
	@$(BIN)/python -m pytest -n $(TESTS_AT_ONCE) --dist worksteal $(ARGS)

explore: install ## run the property tests of rules and parsers on examples that no run has tried
	@$(BIN)/python -m pytest -n $(TESTS_AT_ONCE) --hypothesis-profile=explore $(ARGS) tests/unit

soak: install ## break everything for SOAK_S seconds (600), each round with another seed
	@$(BIN)/python -m tests.soak --seconds $(or $(SOAK_S),600) $(ARGS)

containers: install ## run docker-compose.yml in this machine's Docker engine, and break it
	@$(BIN)/python -m tests.containers $(ARGS)

brokers: install ## ferry runs over Debian's RabbitMQ while it dies, and over SQS as moto shows it
	@$(BIN)/python -m tests.brokers $(ARGS)

check: install ## format, lint, types, imports, generated docs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python docs/generate.py --check

format: install ## rewrite the code in the one format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: install ## rewrite the parts of docs/ that come from the code
	@$(BIN)/python docs/generate.py

screenshots: install ## look at all pages with a real Chromium, and make docs/pictures again
	@$(BIN)/python docs/screenshots.py

bench: $(BENCH) ## measure beside tools that copy; ARGS=--quick for a first look
	@$(BIN)/python -m benchmarks $(ARGS)

figures: install ## write what was measured into docs/performance.md, with its pictures
	@$(BIN)/python -m benchmarks.figures

rules: ## test the alert rules with Prometheus' promtool, which has to be there
	@promtool check config ops/prometheus/prometheus.yml
	@cd ops/prometheus && promtool test rules labferry.rules.test.yml

lock: install ## resolve the hash-pinned requirements again; ARGS=--upgrade for newer ones
	@$(PIP) --require-hashes -r requirements/lock.txt
	@$(COMPILE) pyproject.toml -o requirements/runtime.txt
	@$(COMPILE) pyproject.toml --extra demo --extra traces --group dev -c requirements/runtime.txt -o requirements/dev.txt
	@for group in build lock; do $(COMPILE) --group $$group -o requirements/$$group.txt; done
	@$(COMPILE) --group bench -c requirements/dev.txt -o requirements/bench.txt

clean: ## remove .venv and what tools left behind
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@for python in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with $$($$python --version)."; exec $$python -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "labferry needs Python 3.11, 3.12 or 3.13 with its venv module, and found none of:" >&2; \
	echo "  $(or $(PYTHON),python3.13 python3.12 python3.11 python3)" >&2; \
	echo "Install one (Debian: apt install python3-venv), or say where: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; \
	exit 1

$(INSTALLED): $(BIN)/python requirements/dev.txt pyproject.toml
	@echo "Installing the pinned requirements into $(VENV); this takes a minute, the first time only."
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@
	@echo "Ready: $(BIN)/labferry --help"

$(BENCH): $(INSTALLED) requirements/bench.txt
	@$(PIP) --require-hashes -r requirements/bench.txt
	@touch $@
