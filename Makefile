# Two commands for a newcomer: `make demo` and `make test`. Both set up `.venv` first and are quick when it is there.
# Needs Python >= 3.11 and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes: without compiled files each of them reads the whole package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lock demo quick matrix test test-slow test-cluster test-postgres test-promptfoo test-litellm frameworks docs check format lint types imports train benchmark clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## build .venv

$(STAMP): pyproject.toml scripts/setup $(wildcard constraints/*.txt)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/setup
	@touch $@

lock: $(STAMP) ## write the installed versions to constraints/, for reproducible development
	@VENV="$(VENV)" sh scripts/lock

demo: $(STAMP) ## the tour: all of it on this machine in a minute
	@BIN="$(BIN)" sh scripts/demo

quick: $(STAMP) ## everything but the heavy tests, in less than a minute
	@BIN="$(BIN)" sh scripts/quick

matrix: ## the quick loop on every Python >= 3.11 that is installed
	@sh scripts/matrix

test: $(STAMP) ## run the tests with the coverage gate
	@$(BIN)/python -m pytest -m "not slow and not cluster" -n auto --dist worksteal --cov

test-slow: $(STAMP) ## the tests that need the labelled sets or minutes
	@$(BIN)/python -m pytest -m slow

test-cluster: $(STAMP) ## scan and diff on a real Spark cluster of this machine (Java is installed where absent)
	@BIN="$(BIN)" sh scripts/java
	@$(BIN)/python -m pytest tests/runs/spark

test-postgres: $(STAMP) ## the shared store on a real PostgreSQL, installed where it is absent
	@sh scripts/postgres
	@$(BIN)/python -m pytest tests/postgres

test-promptfoo: $(STAMP) ## our assertion inside the real promptfoo (two minutes to install)
	@BIN="$(BIN)" sh scripts/promptfoo

test-litellm: $(STAMP) ## our callback inside the real LiteLLM proxy (two minutes to install)
	@BIN="$(BIN)" sh scripts/litellm

frameworks: $(STAMP) ## what reaches an application through each client stack, run anew (STACKS="openai dspy" for some)
	@$(BIN)/python scripts/frameworks.py $(STACKS)

docs: $(STAMP) ## build the documentation's site into build/site, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html; for the search: $(BIN)/mkdocs serve"

check: format lint types imports test ## all that CI asks

format: $(STAMP)
	@$(BIN)/ruff format --check .

lint: $(STAMP)
	@$(BIN)/ruff check .

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/lint-imports

train: $(STAMP) ## learn the packs anew from the labelled sets (DATA=folder)
	@$(BIN)/python -m demur_train.refusals $(if $(DATA),--data $(DATA))
	@$(BIN)/python -m demur_train.prompts $(if $(DATA),--data $(DATA))

benchmark: $(STAMP) ## time the detector and the diff beside their rivals, and simulate the statistics
	@$(BIN)/python benchmarks/detector.py
	@$(BIN)/python benchmarks/diff.py
	@$(BIN)/python benchmarks/coverage.py

clean: ## remove what was built
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache
