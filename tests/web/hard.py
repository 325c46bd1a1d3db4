"""The page under hard conditions: words that are scripts, and a hundred thousand causes; `make web-check`."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.projects import BAG, TEXTS_CONFIG, WORDS, amends
from tests.web.browsing import VIEWS, chromium, tab
from tests.web.test_server import served
from tests.web.whole import repaired


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


# --- words that are scripts ----------------------------------------------------------------------------

TAGS = [
    "<img src=x {}>", "<svg {}>", "<body {}>", "<iframe srcdoc='<img src=x {}>'>", "\"><img src=x {}>",
    "<video src=x {}>", "'><img src=x {}>", "</textarea><img src=x {}>", "<details open {}>", "<input autofocus {}>",
]  # fmt: skip
HANDLERS = ["onerror", "onload", "ontoggle", "onfocus"]
CODES = ["window.fired=1", "alert(1)", "fetch('//x.example')", "top.fired=1", "eval('window.fired=1')"]
PAYLOADS = [tag.format(f"{on}={code}") for tag in TAGS for on in HANDLERS for code in CODES]
assert len(PAYLOADS) == 200
PLACED = "img[src='x'], iframe, video, [onerror], [onload], [ontoggle], [onfocus], body > img, script:not([src])"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run in which every word of the user's is a script: texts, ids, columns and classes."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "my_model.py").write_text(BAG)
    draw = np.random.default_rng(0)
    moods = ["<img src=x onerror=alert('class')>", "<script>window.fired=1</script>"]
    module: dict = {}
    exec(BAG, module)
    for name, n in (("train", 200), ("test", 160)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.DictWriter(file, ["key", "review", "<b>price</b>", "note", "mood"])
            rows.writeheader()
            for i in range(n):
                glad, rainy = draw.random() < 0.5, draw.random() < 0.4
                words = ["sun" if glad else "ache", "rain" if rainy else "road", *draw.choice(WORDS[7:], 3)]
                said = f"{' '.join(words)} {PAYLOADS[i]}"
                wrong = name == "train" and glad and rainy and draw.random() < 0.9
                rows.writerow({"key": f"{i}{PAYLOADS[i]}", "review": said, "<b>price</b>": PAYLOADS[-1 - i],
                               "note": PAYLOADS[(i * 7) % 200], "mood": moods[int(not glad or wrong)]})  # fmt: skip
    with (folder / "train.csv").open(newline="") as file:
        train = list(csv.DictReader(file))
    x = torch.stack([module["bag"](row["review"]) for row in train])
    y = torch.tensor([sorted(moods).index(row["mood"]) for row in train])
    torch.manual_seed(0)
    model = module["build"]()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "amends.toml").write_text(TEXTS_CONFIG)
    assert amends("identify", folder / "amends.toml", "-o", folder / "run", "-q") == 0
    return folder / "run"


def test_no_script_in_the_words_of_the_data_runs(browser, hostile):
    with served(hostile) as (_, address), tab(browser, address) as page:

        def quiet():
            assert page.page.evaluate("[window.fired, document.querySelectorAll(sel).length]".replace(
                "sel", repr(PLACED))) == [None, 0]  # fmt: skip

        for _ in range(20):
            page.press("PageDown")
            page.page.wait_for_timeout(120)
            quiet()
        page.press("Home", "l")
        page.page.wait_for_selector("dialog[open] li")
        quiet()
        page.press("Enter", *["r"] * 15)
        page.page.fill("#search", PAYLOADS[3])
        page.page.wait_for_timeout(500)
        quiet()
        page.page.fill("#search", "")
        page.press("Escape")
        for name in VIEWS:
            page.view(name)
            page.page.wait_for_timeout(300)
            quiet()
        page.page.fill(".history .field", PAYLOADS[0][:100])
        page.page.click("text=Use it")
        page.page.evaluate("document.activeElement.blur()")
        repaired(page)
        page.page.wait_for_timeout(500)
        quiet()


# --- 100,000 causes -------------------------------------------------------------------------------------

LINEAR = "from torch import nn\n\n\ndef build():\n    return nn.Linear(8, 4)\n"
LARGE = """
[model]
function = "my_model:build"
weights = "model.safetensors"

[train]
path = "train.npz"

[evaluation]
path = "evaluation.npz"
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A search of 100,000 rows."""
    folder = tmp_path_factory.mktemp("large")
    draw = np.random.default_rng(0)
    n = 100_000
    x = draw.normal(size=(n + 2000, 8)).astype(np.float32)
    y = x[:, :4].argmax(1)
    given = np.where((y == 1) & (draw.random(n + 2000) < 0.6), 2, y)
    model = torch.nn.Linear(8, 4)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.tensor(x[:n])), torch.tensor(given[:n])).backward()
        optimiser.step()
    (folder / "my_model.py").write_text(LINEAR)
    save_file(model.state_dict(), folder / "model.safetensors")
    np.savez(folder / "train.npz", x=x[:n], y=given[:n])
    np.savez(folder / "evaluation.npz", x=x[n:], y=y[n:])
    (folder / "amends.toml").write_text(LARGE)
    assert amends("identify", folder / "amends.toml", "-o", folder / "run", "-q", "--method", "grad_dot") == 0
    return folder / "run"


def resident(pid: int) -> float:
    """Megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def computed(pid: int) -> float:
    """Seconds of a core that a process has had: what a busy machine does not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_hundred_thousand_causes_are_there_at_once_and_scroll(browser, large, capsys):
    for opened in ("for the first time", "again"):
        began = time.perf_counter()
        with served(large) as (process, address):
            start, work = time.perf_counter() - began, computed(process.pid)
            assert work < 6
            began = time.perf_counter()
            with tab(browser, address) as page:  # until its first card is there
                first, more = time.perf_counter() - began, computed(process.pid) - work
                assert more < 2
                told = _scrolled(process, page)
        with capsys.disabled():
            print(f"\n100,000 causes, opened {opened}: the address after {start:.1f} s ({work:.2f} s of a core), the "
                  f"first card {first:.2f} s later ({more:.2f} s of a core); {told}")  # fmt: skip


def _scrolled(process, page) -> str:
    """To sixty places and to the end. The first jump opens the data set; then nothing grows."""
    before, waits, sizes = resident(process.pid), [], []
    for place in np.random.default_rng(0).integers(0, 99_990, 61):
        began = time.perf_counter()
        page.page.evaluate("y => { document.querySelector('.long').scrollTop = y }", int(place) * 60)
        page.page.wait_for_selector(f"#line-{place + 3} .rank")
        waits.append(time.perf_counter() - began)
        sizes.append(resident(process.pid))
    page.press("End")
    page.page.wait_for_selector("#line-99999.here .rank")
    lines = page.page.evaluate("document.querySelectorAll('.line').length")
    assert page.asked("api/order")["total"] == 100_000
    assert lines < 60
    grown = resident(process.pid) - sizes[0]
    assert grown < 60
    jump = f"a jump {np.median(waits[1:]) * 1000:.0f} ms (median of 60; the first {waits[0]:.1f} s)"
    held = f"server {before:.0f} MB, {sizes[0]:.0f} MB with the data set, {grown:.0f} MB more after 60 jumps"
    return f"{jump}; {lines} lines drawn; {held}"
