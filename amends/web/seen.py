"""How an example is shown: its picture, its text or its row, by position and never by path."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from amends.config.read import Config
from amends.errors import AmendsError
from amends.runs.run import Run
from amends.web.table import Table

SETS = ("train", "failures", "remaining")
SIDES = {"": 160, "card": 560, "full": 1600}  # pixels of a thumbnail, on a card, and in full size
CUT = 4000  # characters of a text
SOON = 2.0  # seconds after a page was opened
PATIENCE = 2.0  # seconds for data that is just being opened


class Seen:
    """Shows the strongest causes from looks.json, and others from the data itself, which is opened when first needed.
    No code of the user is run: files are read as they are stored."""

    def __init__(self, run: Run, table: Table, given: Mapping[str, Any] | None = None):
        self.run, self.table, self.looks, self.given = run, table, run.looks, given
        self.kind = str(self.looks.get("kind", "none"))
        self._raw: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._warming: threading.Timer | None = None
        self.picture = lru_cache(maxsize=512)(self._picture)

    @property
    def all(self) -> bool:
        """Whether any example can be shown, not only the strongest."""
        return self.given is not None or self._config() is not None

    def warm(self) -> None:
        """Opens the data soon, while somebody looks at the first card, so that later cards need not wait."""
        if self._warming is None and self.given is None:
            self._warming = threading.Timer(SOON, self._warm)
            self._warming.daemon = True
            self._warming.start()

    def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            self._warming.join(PATIENCE)

    def _warm(self) -> None:
        with suppress(AmendsError, OSError, ValueError, KeyError):
            self._of("train")

    def look(self, name: str, at: int) -> dict[str, Any]:
        """An example as the page gets it; a picture by its address. Empty if it cannot be shown."""
        if self.kind == "image":
            return {"image": f"api/pictures/{name}/{at}.png"}
        known = self._known(name, at)
        facts = known or self._other(name, at)
        return {k: v for k, v in facts.items() if k in ("text", "row", "stands_out", "values", "deviations")}

    def facts(self, name: str, at: int) -> dict[str, Any]:
        """The label of an example and the predictions of the model, from looks.json."""
        known = self._known(name, at)
        return {k: known.get(k) for k in ("label", "predicted", "predicted_after")}

    def _known(self, name: str, at: int) -> dict[str, Any]:
        return (self.looks.get(name) or {}).get(str(at), {})

    def _picture(self, name: str, at: int, size: str) -> bytes | None:
        """A PNG; None if there is none. A thumbnail is taken from looks.json if it has one."""
        known = self._known(name, at).get("image")
        stored = None if known is None else base64.b64decode(known.partition(",")[2])
        if stored is not None and not size:
            return stored
        try:
            picture = self._pixels(name, at, SIDES[size])
        except (AmendsError, OSError, ValueError, IndexError, KeyError):
            picture = None
        return picture or stored

    def _pixels(self, name: str, at: int, side: int) -> bytes | None:
        from amends.tables.looks import pictures_in, pixels, png

        if self.given is not None:
            data: Any = self.given.get(name, ())
            stack = pictures_in(data.x) if 0 <= at < len(data) else None
            return None if stack is None else png(pixels(stack[int(data.rows[at])], side))
        raw, row = self._of(name), self._row(name, at)
        if raw is None or row is None:
            return None
        if isinstance(raw.inputs, np.ndarray) and raw.kind != "image":
            import torch

            stack = pictures_in(torch.as_tensor(raw.inputs[row : row + 1]))
            return None if stack is None else png(pixels(stack[0], side))
        from amends.data.formats.pictures import Pictures

        return png(pixels(Pictures(raw, None, False)[row], side))

    def _other(self, name: str, at: int) -> dict[str, Any]:
        """A text or a row that looks.json does not hold."""
        try:
            return self._read(name, at)
        except (AmendsError, OSError, ValueError, IndexError, KeyError):
            return {}

    def _read(self, name: str, at: int) -> dict[str, Any]:
        if self.given is not None:
            from amends.tables.looks import looks

            data = self.given.get(name)
            return {} if data is None or not 0 <= at < len(data) else looks(**{name: (data, [at])})[name][str(at)]
        raw, row = self._of(name), self._row(name, at)
        if raw is None or row is None:
            return {}
        if self.kind == "text":
            given = raw.inputs[row]
            text = given if isinstance(given, str) else str(raw.columns["text"][row])  # of a conversation
            return {"text": text if len(text) <= CUT else text[:CUT].rsplit(" ", 1)[0] + " …"}
        if self.kind != "row" or np.ndim(raw.inputs) != 2:
            return {}
        return self._numbers(name, row)

    def _numbers(self, name: str, row: int) -> dict[str, Any]:
        """A row of numbers, with how they compare to train."""
        import torch

        from amends.tables.looks import row_of

        train, raw = self._of("train"), self._of(name)
        names = list(self.looks.get("features") or train.features)
        if "typical" not in self._raw:
            x = np.asarray(train.inputs, dtype=np.float64)
            self._raw["typical"] = (torch.as_tensor(x.mean(0)), torch.as_tensor(x.std(0)))
        return row_of(torch.as_tensor(np.asarray(raw.inputs[row], dtype=np.float64)), names, self._raw["typical"])

    def _config(self) -> Config | None:
        try:
            return self.run.config
        except AmendsError:
            return None

    def _of(self, name: str) -> Any:
        """A set as it is stored, opened once; None if it cannot be opened or has changed."""
        home = name if name == "train" or self._has(name) else "evaluation"
        with self._lock:
            if home not in self._raw:
                self._raw[home] = self._opened(home)
            return self._raw[home]

    def _has(self, name: str) -> bool:
        config = self._config()
        return config is not None and "path" in config[name]

    def _opened(self, home: str) -> Any:
        from amends.data import formats
        from amends.data.formats.raw import COLUMNS, Asked

        config = self._config()
        if config is None or "path" not in config.set(home):
            return None
        keys = config.set(home)
        columns: dict[str, Any] = {k: keys.get(k) for k in COLUMNS}
        target = keys.get("target", "class")
        named = tuple(keys.get("classes") or self.looks.get("classes") or ()) if target == "class" else ()
        model = "transform" in keys or "huggingface" in config["model"]
        features = list(self.looks.get("features") or ()) if home != "train" and self.kind == "row" else None
        if features and columns["features"] is None:
            columns["features"] = features
        asked = Asked(**columns, classes=named, target=target, encoded=model)
        raw = formats.raw(config.folder / keys["path"], keys.get("format"), asked)
        n = self.run.about.get("data", {}).get(home, {}).get("n")
        return None if n is not None and n != len(raw.inputs) else raw

    def _row(self, name: str, at: int) -> int | None:
        """The row of an example in its file. Failures found by the model have their row in the evaluation set."""
        if name == "train":
            return at if 0 <= at < self.run.about["data"]["train"]["n"] else None
        if self._has(name):
            return at
        if name == "failures":
            return self.table.one("select row from failures where at = ?", [at])
        return None  # for remaining, only looks.json knows which row is which
