PYTHON ?= python3
# Most tests wait for others most of the time: servers, leases, workers.
WORKERS ?= 4
SEEDS ?= 2000
# What `make coverage` runs: all suites, or those named.
COVERED ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := $(wildcard src tests benchmarks apps)

TO_RUN := $(VENV)/.ready-to-run
TO_SERVE := $(VENV)/.ready-to-serve
TO_DEVELOP := $(VENV)/.ready-to-develop

.DEFAULT_GOAL := help
.PHONY: help run memos reviews webhooks payments test test-more matrix coverage quick check format pages bench soak clean

help: ## Say what can be made (this)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(TO_RUN) ## From nothing to a demonstration on SQLite, no server needed
	@$(BIN)/sendonce demo

memos: $(TO_SERVE) ## The memo e-mail application on SQLite: API, worker and a mailbox that catches everything
	@$(BIN)/python -m apps.memo_email

reviews: $(TO_SERVE) ## The review notification application
	@$(BIN)/python -m apps.review_notifications

webhooks: $(TO_SERVE) ## The webhook application
	@$(BIN)/python -m apps.webhooks

payments: $(TO_SERVE) ## Payments and a wallet with a broker between: doubled messages, a killed listener, lost reports
	@$(BIN)/python -m apps.chancepay demo

test: $(TO_DEVELOP) ## Every test, on SQLite and on real PostgreSQL servers
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-more: $(TO_DEVELOP) ## The full matrices: failover, poolers, another Python, the lowest versions, more seeds
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "more and not soak"

matrix: $(TO_DEVELOP) ## The suite on every Python that pyproject.toml names and this machine has
	$(BIN)/python -m pytest -m matrix tests/pythons

coverage: $(TO_DEVELOP) ## Branch coverage of all of `make test`, by package, and the parts that nothing reaches
	rm -rf .coverage .coverage.* && $(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist worksteal $(COVERED)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m tests.coverage

quick: $(TO_DEVELOP) ## The domain and SQLite only, in seconds
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak and not more and not matrix and not slow" -k "not postgres"

check: $(TO_DEVELOP) ## Format, lint, types, import contracts
	$(BIN)/python -m ruff format --check $(SOURCES)
	$(BIN)/python -m ruff check $(SOURCES)
	$(BIN)/python -m mypy $(SOURCES)
	$(BIN)/lint-imports --no-logo

format: $(TO_DEVELOP) ## Put the code into its format
	$(BIN)/python -m ruff format $(SOURCES)
	$(BIN)/python -m ruff check --fix $(SOURCES)

pages: $(TO_DEVELOP) ## Write the generated pages of docs again: conformance, guarantees, walks
	$(BIN)/python -m tests.conformance.report
	$(BIN)/python -m tests.docs.walks
	$(BIN)/python -m tests.guarantees.page

bench: $(TO_DEVELOP) ## Measure, as ratios to the floors, in one run
	$(BIN)/python -m benchmarks

soak: $(TO_DEVELOP) ## Hours of simulation, crashes, fuzzing and chaos on one commit; goes on where it was stopped
	SEEDS=$(SEEDS) $(BIN)/python -m tests.soak
	$(BIN)/python -m tests.guarantees.page

clean: ## Remove the environment and the tools' caches
	rm -rf $(VENV) .hypothesis .coverage .coverage.* .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# Written last, so that an environment whose making was interrupted is made again.
$(VENV)/.made:
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(TO_RUN): pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP_INSTALL) --editable '.[all]'
	@touch $@

$(TO_SERVE): pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP_INSTALL) --editable '.[apps]'
	@touch $(TO_RUN) $@

$(TO_DEVELOP): pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP_INSTALL) --editable '.[all,dev]'
	@touch $(TO_RUN) $(TO_SERVE) $@
