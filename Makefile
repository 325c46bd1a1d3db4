# Each target makes its own environment; a second run skips the install.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test clean

demo: .venv/demo.installed
	$(BIN)/amends demo

test: .venv/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo]"
	touch $@

.venv/dev.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo,dev]"
	touch $@ .venv/demo.installed

clean:
	rm -rf .venv runs
