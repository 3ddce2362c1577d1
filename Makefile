PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The tests start hundreds of processes: without this each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install install-dev run serve test proofs test-long test-wiki lint format lock clean

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

install-dev: $(VENV)/.installed-dev

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@

# A Prefect home of its own: nothing depends on a server or a profile that is already there.
run: install
	env -u PREFECT_API_URL -u PREFECT_API_KEY PREFECT_HOME=$(CURDIR)/$(VENV)/prefect PREFECT_LOGGING_LEVEL=WARNING DO_NOT_TRACK=1 $(BIN)/python -m flows.demo config/kb.toml

# Of your own files: make serve CONFIG="one.toml two.toml", or KB_CONFIG=one.toml make serve
CONFIG ?= $(or $(KB_CONFIG),config/kb.toml)

serve: install
	DO_NOT_TRACK=1 $(BIN)/python -m flows.deployments $(CONFIG)

# Many tests wait for a process or a clock: three workers keep two cores busy.
test: install-dev
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "not long and not wiki"

# What the six boundaries of retrieval are claimed to hold, each measured now: one line a claim.
proofs: install-dev
	$(BIN)/python -m pytest -s -p no:xdist tests/boundaries

test-long: install-dev
	$(BIN)/python -m pytest -m long

# A real MediaWiki from Debian's packages. Without apt or root there is nothing to install it with, and nothing is run.
test-wiki: install-dev
	@if test -f /usr/share/mediawiki/maintenance/install.php && php -m 2>/dev/null | grep -q pdo_sqlite; then :; \
	elif command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mediawiki php-cli php-sqlite3 php-xml php-mbstring php-intl; \
	else echo "test-wiki: skipped, MediaWiki is not installed and that needs apt-get and root"; exit 0; fi && \
	$(BIN)/python -m pytest -m wiki tests/journeys/test_wiki.py

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links --extra build --extra evaluation --extra serve pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links --extra build --extra evaluation --extra serve --extra dev pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) build dist *.egg-info
