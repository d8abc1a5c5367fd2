# `make run` and `make test` are all a fresh clone needs; both set up .venv first, and again when a requirements file
# changes. Everything runs from the checkout and as `python -m …`: nothing is installed or built, so the directory may
# be moved. Written for GNU make 3.81 (macOS) and later.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --prefer-binary
TOOLS  := $(VENV)/tools
# LOCKED=yes installs what requirements-lock.txt names and nothing else, each file checked by its digest, as CI does.
LOCK   := requirements-lock.txt
DEV    := $(VENV)/.dev$(if $(LOCKED),-locked)

.DEFAULT_GOAL := help
.PHONY: run test soak lint bench audit lock clean help

# exec: the demo itself receives Ctrl-C and make has no shell to report on.
run: $(VENV)/.run  ## Start everything: server, demo site, visitors, dashboard (Ctrl-C ends it)
	@exec $(BIN)/python -m demo

test: lint  ## Lint, types, then the tests (ARGS="-k kick" for some of them)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(DEV)  ## What takes long: thousands of random histories, days of traffic, ten browsers, failovers
	PRESENCE_SOAK=1500 $(BIN)/python -m pytest tests/properties tests/test_day.py tests/test_failover.py \
	  tests/browser/test_many_browsers.py $(ARGS)

lint: $(DEV)  ## Ruff (rules and format) and mypy only
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy

bench: $(VENV)/.run  ## Measure (ARGS are handed on)
	$(BIN)/python -m benchmarks $(ARGS)

audit: $(TOOLS)/.made  ## Known holes in what is locked: asks an advisory service; what it cannot tell fails
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes -r $(LOCK) $(ARGS)

lock: $(TOOLS)/.made  ## Write requirements-lock.txt anew, for every platform, from requirements-dev.txt
	$(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url requirements-dev.txt --output-file $(LOCK) $(ARGS)

clean:  ## Remove .venv and caches; data in .presence stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## This list
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

# A .venv that works is kept; a broken one, or one of an older Python, is made anew. One sentence says why it cannot be.
define ensure_venv
@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && exit 0; \
fail() { echo "$$1" >&2; exit 1; }; \
need="Python 3.11 or newer is needed; name one that you have (make PYTHON=python3.12 run) or install it:"; \
command -v "$(PYTHON)" >/dev/null 2>&1 || fail "$$need '$(PYTHON)' was not found."; \
"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  fail "$$need '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)."; \
"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
  fail "'$(PYTHON)' lacks venv or ensurepip: install them (Debian, Ubuntu: apt install python3-venv)."; \
echo "Setting up $(VENV), this once; about a minute …"; \
"$(PYTHON)" -m venv --clear $(VENV)
endef

# The stamps: younger than the requirements that they were made from.
$(VENV)/.run: requirements.txt
	$(ensure_venv)
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements.txt
	$(ensure_venv)
	@$(PIP) -r requirements-dev.txt
	@touch $(VENV)/.run $@

# A stamp of its own: what was installed without the lock is not what CI has.
$(VENV)/.dev-locked: $(LOCK) requirements-dev.txt requirements.txt
	$(ensure_venv)
	@$(PIP) --require-hashes -r $(LOCK)
	@touch $(VENV)/.run $(VENV)/.dev $@

# What looks at the rest is not among it.
$(TOOLS)/.made: $(DEV)
	@$(BIN)/python -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1 uv==0.13.8
	@touch $@
