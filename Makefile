# Everything that is done with this project, from a machine that has Python >= 3.11 with pip, and make.
# `make` alone lists what there is. Environments are made and refreshed as needed; PYTHON=… chooses the Python.

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-long test-oldest faults faults-report coverage lint format bench docs-check build requirements clean
.NOTPARALLEL:

# A Python that was asked for is used or refused; otherwise the first that is new enough is taken.
ifeq ($(filter undefined default,$(origin PYTHON)),)
candidates := $(PYTHON)
else
candidates := python3 python3.14 python3.13 python3.12 python3.11 python
endif
new_enough = import sys; sys.exit(sys.version_info < (3, 11))
python := $(shell for p in $(candidates); do \
	"$$p" -c '$(new_enough)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

venv := .venv
in_venv := $(venv)/bin/python
ready = @$(if $(python),,echo "Holdfast needs Python 3.11 or later; tried: $(candidates)." \
	"Name one with: make PYTHON=/path/to/python3.12 $@" >&2; exit 1;) \
	"$(python)" scripts/environment.py

help: ## List what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' \
		| while IFS="$$(printf '\t')" read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

demo: ## Show in a few seconds what Holdfast does: a program is killed in mid-payment, and nobody pays twice
	$(ready) $(venv) build python
	@$(in_venv) -m holdfast demo

test: ## Run every test (arguments: make test ARGS="-k replay")
	$(ready) $(venv) build test
	$(in_venv) -m pytest -q $(ARGS)

test-fast: ## Run the tests that take no time
	$(ready) $(venv) build test
	$(in_venv) -m pytest -q -m "not slow and not faults" $(ARGS)

test-long: ## Run every test with many more random examples
	$(ready) $(venv) build test
	HYPOTHESIS_PROFILE=long $(in_venv) -m pytest -q -o timeout=600 $(ARGS)

test-oldest: ## Run every test with the oldest versions that Holdfast says it works with
	$(ready) .venv-oldest build test oldest
	.venv-oldest/bin/python -m pytest -q $(ARGS)

faults: ## Break the world in every way that the tests know, at every point: docs/guarantees.md says how long it took
	$(ready) $(venv) build test
	HOLDFAST_FAULTS=long $(in_venv) -m pytest -q -m faults -o timeout=3600 $(ARGS)

faults-report: ## The same, with the figures written into docs/guarantees.md
	$(ready) $(venv) build test
	$(in_venv) scripts/faults_report.py

coverage: ## Run every test and show the lines that none of them reached
	$(ready) $(venv) build test
	$(in_venv) -m coverage run -m pytest -q $(ARGS)
	$(in_venv) -m coverage report

lint: ## Check style, format, types and the direction of imports
	$(ready) $(venv) build test
	$(in_venv) -m ruff check .
	$(in_venv) -m ruff format --check .
	$(in_venv) -m mypy
	$(venv)/bin/lint-imports --no-cache

format: ## Format the code and mend what ruff can mend
	$(ready) $(venv) build test
	$(in_venv) -m ruff check --fix --exit-zero --quiet .
	$(in_venv) -m ruff format .

bench: ## Measure against other ways, in an environment of its own; prints ratios
	$(ready) .venv-bench build bench
	.venv-bench/bin/python -m benchmarks $(ARGS)

docs-check: ## Run the examples of README.md, docs/ and the docstrings alone
	$(ready) $(venv) build test
	$(in_venv) -m pytest -q $(wildcard README.md docs) src $(ARGS)

build: ## Build the sdist, and from it the wheel, into dist/
	$(ready) $(venv) build test
	rm -rf dist
	$(in_venv) -m build --no-isolation .

requirements: ## Choose the newest versions again and pin them with their hashes
	$(ready) .venv-pin pin --no-project
	scripts/pin .venv-pin/bin/uv

clean: ## Remove everything that the above made
	rm -rf $(venv) .venv-bench .venv-oldest .venv-pin build dist .coverage htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
