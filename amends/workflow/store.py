"""What a run folder is filled with: the first search, then the repair that went on from it."""

from __future__ import annotations

import json
import mmap
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from amends import __version__
from amends.algorithm.problem import Problem
from amends.algorithm.rounds import Search
from amends.config.decisions import GONE, NEW, REMOVE, words
from amends.config.read import Config, absolute
from amends.data.hashes import columns_hash, labels_hash, set_hash, weights_hash
from amends.evaluation.predictions import labels
from amends.evidence.factor import Factor
from amends.models import Loaded
from amends.models.huggingface import write_model
from amends.models.sources import code_hash
from amends.nearness.copies import duplicates
from amends.report.card import card
from amends.report.page import report
from amends.runs.manifest import write_run
from amends.runs.run import DONE, FORMAT, IDENTIFIED
from amends.runs.trust import functions, signature
from amends.tables.cells import write_rows, write_table
from amends.tables.frames import failures_frame, label_text, with_new_labels
from amends.tables.looks import looks_of
from amends.workflow.checkpoint import stage_folder, write_search
from amends.workflow.repair import Repair

COMPARED = 5000  # examples that conflict with the failures, searched for near copies
SPARE = 2**25  # bytes, more than pyarrow takes for itself
HIGHER = "higher = more harmful"
RULE = "the highest scores, as many as did most for the failures searched with"


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a run comes from: its config and how its model is written; neither for a run made in Python."""

    name: str
    seed: int
    config: Config | None = None
    loaded: Loaded | None = None
    rule: str = RULE

    def about(self, state: str, given: Mapping[str, Factor]) -> dict[str, Any]:
        """run.toml: enough to make the run again, and to know whether model and data are the same."""
        network = given["train"].network
        run: dict[str, Any] = {
            "name": self.name, "state": state, "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "amends": __version__, "torch": torch.__version__, "numpy": np.__version__,
            "python": platform.python_version(), "device": str(network.device),
            "dtype": str(network.dtype).removeprefix("torch."), "threads": torch.get_num_threads(),
            "seed": self.seed, "rule": self.rule, "format": FORMAT,
        }  # fmt: skip
        about: dict[str, Any] = {"run": run}
        if self.config is not None:
            run["folder"] = str(absolute(self.config).folder)
            about["config"] = {k: dict(v) for k, v in self.config.tables.items()}
            run["signed"] = signature(about["config"], run["folder"])
        files = [] if self.loaded is None else [str(f) for f in self.loaded.files]
        model = weights_hash(network.module.state_dict())
        about["model"] = {"sha256": model, "files": files, "code": self._code()}
        about["data"] = {name: _of_set(data) for name, data in given.items()}
        return about

    def _code(self) -> str:
        """A hash of the user's own functions: other code would make another run."""
        if self.config is None:
            return ""
        return code_hash(functions(self.config.tables), self.config.folder)


def _of_set(data: Factor) -> dict[str, Any]:
    examples = data.examples
    return {
        "n": len(data), "sha256": set_hash(examples.x, examples.y), "labels": labels_hash(examples.y),
        "columns": columns_hash(examples.columns, examples.classes, examples.features),
    }  # fmt: skip


def write_first_search(problem: Problem, search: Search, origin: Origin, folder: Path) -> None:
    """What a run folder holds before anything is treated: run.toml, the search, causes.*, failures.csv, looks.json,
    report.html."""
    given, frame = problem.given, search.frame()
    write_search(search, folder / stage_folder(len(problem.parts), 0))
    _table(frame, folder)
    write_table(failures_frame(given["failures"], search.part, search.suspects), folder / "failures.csv")
    seen = looks_of(search.influence, frame, given["failures"].examples, _examples(given, "remaining"))
    _json(seen | {"copies": _copies(search, frame)}, folder / "looks.json")
    _toml(origin.about(IDENTIFIED, given), folder)
    _report(folder)


def write_repair(
    result: Repair, origin: Origin, folder: Path, earlier: pd.DataFrame | None = None, *, searched: bool = False
) -> None:
    """Writes everything, without the searches if the run folder has them already (`searched`). `earlier` is the table
    of a search as a person left it: their decisions stay."""
    metrics, first = result.metrics, result.rounds[0].search
    frame = result.causes if earlier is None else _decided(result, earlier)
    _table(frame, folder)
    suspects = np.array(metrics["suspects"], dtype=int)
    failures = failures_frame(result.given["failures"], result.split, suspects, result.after, metrics["learned"])
    write_table(failures, folder / "failures.csv")
    _json(metrics, folder / "metrics.json")
    write_rows(metrics["curve"], folder / "curve.csv", list(metrics["curve"][0]))
    for number, ended in enumerate(() if searched else result.rounds):
        write_search(ended.search, folder / stage_folder(len(result.rounds), number))
    failed, remaining = result.given["failures"].examples, _examples(result.given, "remaining")
    shown = frame.loc[frame["decision"].isin(GONE)] if metrics["removed"] else frame
    seen = looks_of(first.influence, shown, failed, remaining, metrics=metrics, after=result.after)
    _json(seen | {"copies": _copies(first, frame)}, folder / "looks.json")
    (folder / "repaired").mkdir()
    write = write_model if origin.loaded is None else origin.loaded.write
    write(result.model, folder / "repaired")
    text = card(metrics, version=__version__, rule=origin.rule)
    (folder / "repaired" / "README.md").write_text(text, encoding="utf-8")
    _dataset(result, folder / "dataset")
    _toml(origin.about(DONE, result.given), folder)
    _report(folder)


def _copies(search: Search, frame: pd.DataFrame) -> list[list[int]]:
    """Near copies among the examples that conflict most with the failures: a person decides once for each."""
    order = frame["index"].to_numpy()[(frame["score"] > 0).to_numpy()]
    return duplicates(search.influence.train, order[:COMPARED])


def save_repair(result: Repair, folder: Any) -> Path:
    """A run folder for a repair made in Python."""
    origin = Origin(Path(folder).name, result.metrics["seed"])
    return write_run(folder, lambda target: write_repair(result, origin, target))


def _decided(result: Repair, earlier: pd.DataFrame) -> pd.DataFrame:
    """All of train after the repair: decisions of people stay, and removed examples are marked."""
    first = result.rounds[0].search
    after = result.after if len(result.removed) else None
    frame = first.rows(np.argsort(-first.influence.scores, kind="stable"), after)
    by_index = earlier.drop_duplicates("index").set_index("index")
    decision = by_index["decision"].reindex(frame["index"]).fillna("").to_numpy(dtype=object)
    decision[(decision == "") & np.isin(frame["index"], result.removed)] = REMOVE
    frame = frame.assign(decision=decision)
    added = [c for c in earlier.columns if c not in frame.columns]
    more = by_index[added].reindex(frame["index"]).reset_index(drop=True)
    if NEW in more:
        frame.insert(list(frame.columns).index("decision") + 1, NEW, words(more, NEW))
        more = more.drop(columns=NEW)
    return pd.concat([with_new_labels(frame, result.new_labels), more], axis=1)


def _table(frame: pd.DataFrame, folder: Path) -> None:
    """causes.parquet, with what a score means in its metadata, and causes.csv for people."""
    _spare()
    import pyarrow
    import pyarrow.parquet

    write_table(frame, folder / "causes.csv")
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    meta = {b"amends.score": HIGHER.encode(), **(table.schema.metadata or {})}
    pyarrow.parquet.write_table(table.replace_schema_metadata(meta), folder / "causes.parquet")


def _spare() -> None:
    """MemoryError if memory is short: pyarrow takes its own pages, and would end the process."""
    try:
        mmap.mmap(-1, SPARE).close()
    except OSError as e:
        raise MemoryError(f"{e.strerror}, {SPARE:,} bytes") from None


def _dataset(result: Repair, folder: Path) -> None:
    """Which of train were removed, relabelled and kept."""
    folder.mkdir()
    train = result.given["train"]
    given, ids = labels(train), train.examples.names()
    rows = [{"index": i, "id": i if ids is None else ids[i], "given": _cell(g)} for i, g in enumerate(given)]
    gone, new = set(result.removed.tolist()), result.new_labels
    moved = [rows[i] | {"label": label_text(new[i])} for i in result.removed.tolist() if i in new]
    columns = ["index", "id", "given"]
    write_rows([rows[i] for i in result.removed.tolist() if i not in new], folder / "removed.csv", columns)
    write_rows(moved, folder / "relabelled.csv", [*columns, "label"])
    write_rows([row for i, row in enumerate(rows) if i not in gone], folder / "kept.csv", columns)


def _cell(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _examples(given: Mapping[str, Factor], name: str) -> Any:
    return given[name].examples if name in given else None


def _json(value: Any, path: Path) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _toml(about: dict[str, Any], folder: Path) -> None:
    import tomli_w

    (folder / "run.toml").write_text(tomli_w.dumps(about), encoding="utf-8")


def _report(folder: Path) -> None:
    """Writes the report, the last file of a stage; then lets everyone who may read the folder read its files."""
    (folder / "report.html").write_text(report(folder), encoding="utf-8")
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(path.stat().st_mode | (folder.stat().st_mode & 0o044))
