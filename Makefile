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
# A fixed number of processes by cores (tests/support/workers.py); ARGS="-n0" for one, and a debugger.
SPREAD := --numprocesses=auto --dist=loadfile
# Without Java the tests with Spark are skipped, and say so.
WITH_JAVA := JAVA_HOME=$$(tools/java.sh) && export JAVA_HOME &&
JAVA_IF_ANY := if found=$$(tools/java.sh); then export JAVA_HOME="$$found"; fi;

.PHONY: help demo test fast spark slowest deep lint check bench figures docs site format lock clean

help: ## list the targets
	@echo 'make TARGET [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## show Sash at work on an embedded packet stream
	@$(WITH_JAVA) $(BIN)/sash demo $(ARGS)

test: $(INSTALLED) ## run all tests, those with Spark included (twenty to twenty-five minutes on two cores)
	@$(JAVA_IF_ANY) $(PYTEST) $(SPREAD) --junitxml=build/tests.xml $(ARGS)

fast: $(INSTALLED) ## run the tests and doctests that need no JVM; ARGS="tests/plan" for a folder
	@$(PYTEST) $(if $(ARGS),,$(SPREAD)) -m "not spark and not deep" $(ARGS)

spark: $(INSTALLED) ## run the tests that need a JVM
	@$(WITH_JAVA) $(PYTEST) $(SPREAD) -m "spark and not deep" $(ARGS)

slowest: ## print the slowest twenty tests of the last make test
	@$(BIN)/python tools/slowest.py build/tests.xml

deep: $(INSTALLED) ## all examples of property tests, kills, long runs (about 3 hours): ARGS="PART ..", see ARGS="--help"
	@$(WITH_JAVA) $(BIN)/python tools/deep.py $(ARGS)

lint: $(INSTALLED) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src benchmarks papers
	$(BIN)/lint-imports

check: lint ## the same, and the tests that need no JVM
	$(PYTEST) $(SPREAD) -m "not spark and not deep" $(ARGS)

bench: $(INSTALLED) ## measure: make bench ARGS="NAME", see sash bench --help
	@$(WITH_JAVA) $(BIN)/sash bench $(ARGS)

figures: $(INSTALLED) ## measure and draw the papers' figures, quickly; as published: ARGS="--full", ARGS="TOPIC .."
	@$(BIN)/python -m papers.figures $(ARGS)

docs: $(INSTALLED) ## run the examples in the docstrings, check the links between *.md
	@$(PYTEST) tests/docs/test_docstrings.py $(ARGS)
	@$(BIN)/python tools/check_links.py

site: $(INSTALLED) ## build the documentation's site into build/site, strictly
	@$(BIN)/python tools/make_site.py

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
