# Needs python3 (3.11 or newer), make and a package registry; the rest is brought by the targets.
# ARGS is passed on: make test ARGS="-k join", make demo ARGS="--duration 10".

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
INSTALLED := .venv/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
FAST := not spark and not torture
WITH_JAVA := JAVA_HOME=$$(tools/java.sh) && export JAVA_HOME &&

.PHONY: help demo test fast spark test-ui lint check bench docs site torture format lock clean

help: ## list the targets
	@echo 'make TARGET [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## show Sash at work on an embedded packet stream
	@$(WITH_JAVA) $(BIN)/sash demo $(ARGS)

test: $(INSTALLED) ## run all tests, those with Spark included (up to an hour)
	@$(WITH_JAVA) $(PYTEST) -m "not torture" $(ARGS)

fast: $(INSTALLED) ## run the tests and doctests that need no JVM
	@$(PYTEST) -m "$(FAST)" $(ARGS)

spark: $(INSTALLED) ## run the tests that need one
	@$(WITH_JAVA) $(PYTEST) -m "spark and not torture" $(ARGS)

lint: $(INSTALLED) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src benchmarks
	$(BIN)/lint-imports

check: lint ## the same, and the tests that need no JVM
	$(PYTEST) -m "$(FAST)" $(ARGS)

bench: $(INSTALLED) ## measure: make bench ARGS="NAME", see sash bench --help
	@$(WITH_JAVA) $(BIN)/sash bench $(ARGS)

docs: $(INSTALLED) ## run the examples in the docstrings, check the links between *.md
	@$(PYTEST) -m "$(FAST)" src/sash $(ARGS)
	@$(BIN)/python tools/check_links.py

test-ui: $(INSTALLED) ## run the tests of the page in a browser (installs chromium on Debian)
	@tools/chromium.sh >/dev/null
	@$(PYTEST) -m "ui and not torture" $(ARGS)

site: $(INSTALLED) ## build the documentation's site into build/site, strictly
	@$(BIN)/python tools/make_site.py

torture: $(INSTALLED) ## run the long tests that CI leaves out (may take hours)
	@$(WITH_JAVA) $(PYTEST) -m torture --timeout=0 $(ARGS)

format: $(INSTALLED) ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

lock: ## resolve the newest packages into requirements.lock
	@tools/lock.sh

clean: ## remove caches and what builds and Spark leave behind (keeps .venv)
	@rm -rf build dist artifacts metastore_db spark-warehouse derby.log \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@tools/venv.sh

$(INSTALLED): requirements.lock pyproject.toml $(BIN)/python
	@echo "Installing the locked packages into .venv (up to two minutes) ..."
	@PIP_USE_PEP517=1 $(PIP) install --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
