# A fresh clone needs only `make run` and `make test`. Both create .venv first, and update it when a requirements file
# changes. Everything runs from the checkout as `python -m …`; nothing is built, so the directory may be moved.
# Works with GNU make 3.81 (macOS) and later.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --prefer-binary --no-compile
# pip would compile on one core; this uses all.
BYTECODE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
TOOLS  := $(VENV)/tools
# LOCKED=yes installs only the packages of requirements-lock.txt, each file checked by its digest, as the CI does.
LOCK   := requirements-lock.txt
DEV    := $(VENV)/.dev$(if $(LOCKED),-locked)
# Those of the classifiers in pyproject.toml; a test compares them.
PYTHONS := 3.11 3.12 3.13
# Where a Python may be that is not on PATH.
PYTHON_FOLDERS := "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.*/bin "$$HOME"/.local/share/uv/python/cpython-3.*/bin \
  /opt/homebrew/bin /usr/local/bin /Library/Frameworks/Python.framework/Versions/3.*/bin
COMPILE := $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url

BABEL  := $(BIN)/python -m babel.messages.frontend --quiet

# Where the environment forbids it, every program that a test starts would compile all of its modules again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: run test pythons floor soak layout partners mutants lint bench catalogues docs audit lock release clean help

# exec: the demo receives Ctrl-C directly, and make reports no failed shell.
run: $(VENV)/.run  ## Start everything: server, demo site, visitors, dashboard (Ctrl-C ends it)
	@exec $(BIN)/python -m presence_dashboard.demo

# In a new clone, one process compiles the test modules while mypy has the other core. Otherwise each worker would.
test: $(DEV)  ## Lint, types, then the tests (ARGS="-k kick" for some of them)
	@[ -d tests/__pycache__ ] || $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 & $(MAKE) --no-print-directory lint && wait
	@export MAKEFLAGS=; \
	$(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder $(ARGS) || { \
	  [ $$? = 1 ] && printf '\n== What failed above runs once more, one test at a time.\n' && \
	  $(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none --maxfail 3 $(ARGS); }

# One after the other. A version that fails does not keep the next from its turn.
pythons:  ## The same with each Python that is found, from 3.11, in .venv-3.12 and so on; ten minutes for each
	@found=$$($(find_pythons)); \
	path_of() { echo "$$found" | sed -n "s/^$$1 //p"; }; \
	versions=$$(printf '%s\n' $(PYTHONS) "$$found" | sed 's/ .*//; /^$$/d' | sort -t . -k 2,2n -u); \
	for version in $$versions; do \
	  path=$$(path_of "$$version"); echo "Python $$version: $${path:-not found}"; \
	done; \
	report=; passed=0; failed=0; \
	for version in $$versions; do \
	  path=$$(path_of "$$version"); \
	  if [ -z "$$path" ]; then report="$$report, $$version not found"; continue; fi; \
	  printf '\n== Python %s\n' "$$version"; \
	  if $(MAKE) --no-print-directory VENV=".venv-$$version" PYTHON="$$path" test; \
	  then passed=1; report="$$report, $$version passed"; \
	  else failed=1; report="$$report, $$version FAILED"; fi; \
	done; \
	printf '\nPythons: %s\n' "$${report#, }"; \
	[ $$passed = 1 ] || [ $$failed = 1 ] || echo "No Python from 3.11 was found: nothing was tested." >&2; \
	[ $$passed = 1 ] && [ $$failed = 0 ]

# The oldest version of each package that pyproject.toml allows, in an environment of its own; what those require is new.
floor: $(TOOLS)/.made  ## The contract tests with the oldest packages that are supported; some minutes
	@mkdir -p build && sed '/^-r/d' requirements-dev.txt > build/floor.in && grep '^pytest==' requirements.txt >> build/floor.in
	@$(TOOLS)/bin/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --resolution lowest-direct \
	  --python $(BIN)/python pyproject.toml --extra all build/floor.in --output-file build/floor.txt
	@$(TOOLS)/bin/uv venv --quiet --allow-existing --seed --python $(BIN)/python .venv-floor
	@.venv-floor/bin/python -m pip install --quiet --disable-pip-version-check -r build/floor.txt
	.venv-floor/bin/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder $(or $(ARGS),tests/contract)

soak: $(DEV)  ## The tests whole: every backend, new random histories, full sizes; forty minutes
	PRESENCE_SOAK=1 $(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder $(ARGS)

layout: $(DEV)  ## Every page in every language, role and width: nothing overlaps, is cut or scrolls sideways; ten minutes
	PRESENCE_SOAK=1 $(BIN)/python -m pytest -q -n 0 tests/browser/test_layout.py $(ARGS)

# nginx is a system package; Express is installed into .peers, once.
partners: $(DEV)  ## The sites of the documents with Express, Django, Flask and FastAPI, behind nginx
	$(BIN)/python -m tests.partners
	PRESENCE_PARTNERS=1 $(BIN)/python -m pytest -q -n 0 tests/partners $(ARGS)

mutants: $(DEV)  ## Small wrong changes to the code, one at a time: each must fail a test (ARGS="-k search")
	nice $(BIN)/python -m tests.mutants -j 2 $(ARGS)

lint: $(DEV)  ## Ruff (rules and format) and mypy only
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy

bench: $(VENV)/.run  ## Run the benchmarks (ARGS are passed on)
	$(BIN)/python -m benchmarks $(ARGS)

catalogues: $(DEV)  ## Bring the translations up to date with the texts, and compile them
	@mkdir -p build
	$(call catalogues_of,your_devices,presence_core/web/your_devices)
	$(call catalogues_of,notices,presence_core/web/notices)
	$(call catalogues_of,dashboard,presence_dashboard,presence_core/schema/audit_facts.py)

docs: $(TOOLS)/.made  ## Build the documentation as a site: build/docs/site; half a minute
	$(BIN)/python -m docs.site $(TOOLS)/bin/zensical

audit: $(TOOLS)/.made  ## Ask an advisory service for known vulnerabilities of the locked packages
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes -r $(LOCK) $(ARGS)

lock: $(TOOLS)/.made  ## Write requirements-lock.txt, for every platform, from requirements-dev.txt
	$(COMPILE) requirements-dev.txt --output-file $(LOCK) $(ARGS)
	@$(COMPILE) --constraint $(LOCK) pyproject.toml --extra web --extra geo --extra oidc --output-file deploy/service.lock
	@echo 'streamlit[auth]' | $(COMPILE) --constraint $(LOCK) pyproject.toml - --extra dashboard --output-file deploy/dashboard.lock
	@printf '%s\n' hatchling hatch-fancy-pypi-readme | $(COMPILE) --constraint $(LOCK) - --output-file deploy/build.lock

# The SBOM lists the packages of an environment that has only the wheel with all extras.
release: $(TOOLS)/.made  ## Build wheel, sdist, SBOM and site, and check them. ADDRESS=https://… of the project
	$(ask_address)
	@rm -rf dist build/sbom
	$(BIN)/python -m docs.site $(TOOLS)/bin/zensical
	$(BIN)/python -m hatchling build
	$(TOOLS)/bin/twine check --strict dist/*
	$(TOOLS)/bin/check-wheel-contents dist/*.whl
	@$(BIN)/python -m venv build/sbom
	@wheel=$$(echo dist/*.whl) && build/sbom/bin/python -m pip install --quiet --disable-pip-version-check "$$wheel[all]"
	@build/sbom/bin/python -m pip uninstall --quiet --yes pip setuptools
	@version=$$($(BIN)/python -m hatchling version) && sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml > build/named.toml
	$(TOOLS)/bin/cyclonedx-py environment --pyproject build/named.toml --output-reproducible \
	  --output-file dist/presence_sessions.cdx.json build/sbom/bin/python

clean:  ## Remove .venv, its siblings and caches; data in .presence stays
	rm -rf $(VENV) .venv-floor .venv-3.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## This list
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

# The catalogues of a domain, in the folder of its package: domain, package, another module with texts.
define catalogues_of
@$(BABEL) extract --mapping-file pyproject.toml --add-location=never --no-wrap -o build/$(1).pot $(2) $(3)
@$(BABEL) update --domain $(1) --no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date --no-wrap \
  -i build/$(1).pot -d $(2)/locale
@$(BABEL) compile --domain $(1) -d $(2)/locale
endef

# pyproject.toml is the one place with the public address of the project. Until it is there, the release asks for it.
define ask_address
@! grep -q 'presence-core\.example' pyproject.toml || { test -n "$(ADDRESS)" || { \
  echo "pyproject.toml names no real address of the project. Run make release ADDRESS=https://… (docs/release.md)." >&2; \
  exit 1; }; sed -i.before 's#https://presence-core\.example#$(ADDRESS)#' pyproject.toml && rm pyproject.toml.before; }
endef

# Keep a .venv that works; replace one that is broken or has an older Python. If that fails, print one sentence why.
define ensure_venv
@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && exit 0; \
fail() { echo "$$1" >&2; exit 1; }; \
need="Python 3.11 or newer is needed. Install it, or name it (make PYTHON=python3.12 run):"; \
command -v "$(PYTHON)" >/dev/null 2>&1 || fail "$$need '$(PYTHON)' was not found."; \
"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  fail "$$need '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)."; \
"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
  fail "'$(PYTHON)' lacks venv or ensurepip: install them (Debian, Ubuntu: apt install python3-venv)."; \
echo "Setting up $(VENV), this once; about a minute …"; \
"$(PYTHON)" -m venv --clear $(VENV)
endef

# A line "3.12 PATH" for each minor version from 3.11: the newest patch of those that have venv. A name of pyenv that does
# not run (a shim of a version that is not active) is no Python; the one in its folder is.
define find_pythons
{ IFS=:; for folder in $$PATH $(PYTHON_FOLDERS); do \
  for name in "$$folder"/python3 "$$folder"/python3.[1-9]*; do \
    case "$$name" in *-config|*t) continue;; esac; \
    [ -x "$$name" ] || continue; \
    "$$name" -c 'import sys, importlib.util as u; v = sys.version_info; v < (3, 11) or print("%d.%d" % v[:2], \
      1000 * all(map(u.find_spec, ("venv", "ensurepip"))) + v[2], sys.argv[1])' "$$name" 2>/dev/null </dev/null; \
  done; \
done; } | awk '!($$1 in rank) || $$2 > rank[$$1] { rank[$$1] = $$2; found = $$1; sub("^[^ ]* [^ ]* ", ""); path[found] = $$0 } \
  END { for (found in path) print found, path[found] }'
endef

# Stamp files: newer than the requirements that were installed.
$(VENV)/.run: requirements.txt
	$(ensure_venv)
	@$(PIP) -r requirements.txt
	@$(BYTECODE)
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements.txt
	$(ensure_venv)
	@$(PIP) -r requirements-dev.txt
	@$(BYTECODE)
	@touch $(VENV)/.run $@

# A separate stamp: packages installed without the lock may differ from those of the CI.
$(VENV)/.dev-locked: $(LOCK) requirements-dev.txt requirements.txt
	$(ensure_venv)
	@$(PIP) --require-hashes -r $(LOCK)
	@$(BYTECODE)
	@touch $(VENV)/.run $(VENV)/.dev $@

# The tools have their own environment, so that they are not among the packages they check.
$(TOOLS)/.made: $(DEV)
	@$(BIN)/python -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1 uv==0.13.8 \
	  twine==7.0.0 check-wheel-contents==0.6.3 cyclonedx-bom==7.5.0 \
	  zensical==0.0.73 mkdocstrings-python==2.0.11 ruff==0.17.5
	@touch $@
