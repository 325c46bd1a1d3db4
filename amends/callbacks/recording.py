"""The shared part of both callbacks: note the examples of each batch, keep the steps, write a config to run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from amends.config.read import as_config
from amends.errors import BadInput
from amends.trace import Recorder

TRACED = {"sgd_influence": "trace", "si": "trace", "tracin": "checkpoints"}  # methods that read a run, and its argument
ABOUT = """# Written at the end of training, ready to run: amends repair
# The run was recorded in trace/. Methods that read it: {methods}, for example
#   method = "sgd_influence"
#   method_options = {{ trace = "trace" }}

"""


class Noting:
    """A sampler of batches that notes each batch before it is handed out. Loaders read ahead, in order."""

    def __init__(self, sampler: Any, seen: deque[list[int]]) -> None:
        self.sampler, self.seen = sampler, seen

    def __iter__(self) -> Iterator[list[int]]:
        self.seen.clear()  # batches that were read ahead and not used, at the end of an epoch
        for batch in self.sampler:
            self.seen.append([int(i) for i in batch])
            yield batch

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)


@dataclass(eq=False)
class Recording:
    """A training run: its steps are written to trace/ of the folder as they are made, the config at the end."""

    folder: Path
    tables: Mapping[str, Mapping[str, Any]]
    seen: deque[list[int]] = field(default_factory=deque)
    parts: int = 0  # batches since the last step of the optimiser
    recorder: Recorder | None = None

    @classmethod
    def of(cls, folder: Any, model: Mapping[str, Any], sets: Mapping[str, Any], method: str) -> Recording:
        """Checks before training begins that the config can be run at the end."""
        home = Path(folder)
        if (home / "trace").exists() or (home / "amends.toml").exists():
            raise BadInput(f"a run was recorded here already; {home}; choose another folder, or remove it first")
        repair: dict[str, Any] = {} if method == "default" else {"method": method}
        if method in TRACED:
            repair["method_options"] = {TRACED[method]: "trace"}
        tables = {"model": dict(model), **{k: _below(v, home) for k, v in sets.items() if v}, "repair": repair}
        tables = {name: table for name, table in tables.items() if table}
        as_config(tables, home, str(home / "amends.toml"))
        return cls(home, tables)

    def watch(self, loader: Any) -> Any:
        """The loader, whose batches are noted from now on."""
        inner = getattr(loader, "base_dataloader", loader)  # as accelerate wraps it
        if getattr(inner, "batch_sampler", None) is None:
            raise BadInput(
                "the loader has no batch sampler, so positions cannot be told; callback; give a map-style set"
            )
        object.__setattr__(inner, "batch_sampler", Noting(inner.batch_sampler, self.seen))  # a DataLoader forbids it
        return loader

    def step(self, model: nn.Module, optimiser: Any) -> None:
        """To call right before a step of the optimiser."""
        if len(self.seen) < self.parts:
            raise BadInput(
                f"{self.parts} batches were computed and {len(self.seen)} were noted; callback; "
                "pass the loader through watch, and train in one process"
            )
        if self.recorder is None:
            self.recorder = Recorder(model, self.folder / "trace")
        positions = [i for _ in range(self.parts) for i in self.seen.popleft()]
        self.recorder(positions, float(optimiser.param_groups[0]["lr"]))
        self.parts = 0

    def finish(self) -> None:
        """Closes the trace and writes amends.toml."""
        import tomli_w

        if self.recorder is None:
            raise BadInput("no step was recorded; callback; train for at least one")
        self.recorder.trace()
        text = ABOUT.format(methods=", ".join(TRACED)) + tomli_w.dumps(dict(self.tables))
        (self.folder / "amends.toml").write_text(text, encoding="utf-8")


def _below(given: Any, home: Path) -> dict[str, Any]:
    """The keys of a set; its path counts from the folder of the config."""
    keys = dict(given) if isinstance(given, Mapping) else {"path": given}
    if "path" in keys:
        keys["path"] = Path(os.path.relpath(Path(keys["path"]).resolve(), home.resolve())).as_posix()
    return keys
