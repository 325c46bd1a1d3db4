"""What a run folder is filled with: a search, and the repair that goes on from it."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from amends import __version__
from amends.algorithm.identify import Identified
from amends.committee.decide import Heard
from amends.config.read import Config, absolute
from amends.data.hashes import set_hash, weights_hash
from amends.errors import RunMismatch
from amends.evaluation.predictions import labels
from amends.evidence.factor import Factor
from amends.models import Loaded
from amends.models.loaded import write_weights
from amends.report.card import card
from amends.report.page import report
from amends.runs.disk import add_to_folder, locked, write_folder
from amends.runs.run import DONE, GONE, IDENTIFIED, Run
from amends.tables.frames import causes_frame, failures_frame
from amends.tables.looks import looks_of
from amends.workflow.repair import Found, Repair

HIGHER = "higher = more harmful"
RULE = "the highest scores, as many as a curve over the failures searched with chose"


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a run comes from: the config and how its model is written; neither when made in Python."""

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
            "python": platform.python_version(), "device": str(network.device), "threads": torch.get_num_threads(),
            "seed": self.seed, "rule": self.rule,
        }  # fmt: skip
        about: dict[str, Any] = {"run": run}
        if self.config is not None:
            run["folder"] = str(absolute(self.config).folder)
            about["config"] = {k: dict(v) for k, v in self.config.tables.items()}
        files = [] if self.loaded is None else [str(f) for f in self.loaded.files]
        about["model"] = {"sha256": weights_hash(network.module.state_dict()), "files": files}
        about["data"] = {
            name: {"n": len(f), "sha256": set_hash(f.examples.x, f.examples.y)} for name, f in given.items()
        }
        return about


def write_found(found: Found, given: Mapping[str, Factor], origin: Origin, folder: Path) -> None:
    """A search: run.toml, identified/, causes.*, failures.csv, looks.json, report.html."""
    frame = found.frame()
    _identified(found.influence.identified, found.query, folder / "identified")
    _table(frame, folder)
    failures_frame(given["failures"], found.cut, found.suspects).to_csv(folder / "failures.csv", index=False)
    seen = looks_of(found.influence, frame, given["failures"].examples, _examples(given, "remaining"))
    _json(seen, folder / "looks.json")
    _toml(origin.about(IDENTIFIED, given), folder)
    _report(folder)


def write_repair(
    result: Repair, origin: Origin, folder: Path, earlier: pd.DataFrame | None = None, *, going_on: bool = False
) -> None:
    """Everything; the search itself is left out when `going_on` from one. `earlier` is the table of a search
    as a person left it: their decisions stay."""
    metrics, first = result.metrics, result.rounds[0]
    frame = result.causes if earlier is None else _decided(result, earlier)
    _table(frame, folder)
    suspects = np.array(metrics["suspects"], dtype=int)
    told = failures_frame(result.given["failures"], result.cut, suspects, result.after)
    told.to_csv(folder / "failures.csv", index=False)
    _json(metrics, folder / "metrics.json")
    write_rows(metrics["curve"], folder / "curve.csv")
    if not going_on and len(result.rounds) == 1:
        _identified(first.found.identified, first.query, folder / "identified")
    failures, remaining = result.given["failures"].examples, _examples(result.given, "remaining")
    shown = frame.loc[frame["decision"].isin(GONE)] if metrics["removed"] else frame
    _json(looks_of(first.found, shown, failures, remaining, metrics=metrics, after=result.after), folder / "looks.json")
    (folder / "repaired").mkdir()
    write = write_weights if origin.loaded is None else origin.loaded.write
    write(result.model, folder / "repaired")
    text = card(metrics, version=__version__, rule=origin.rule)
    (folder / "repaired" / "README.md").write_text(text, encoding="utf-8")
    _dataset(result, folder / "dataset")
    _toml(origin.about(DONE, result.given), folder)
    _report(folder)


def save_repair(result: Repair, folder: Any) -> Path:
    """A run folder for a repair made in Python."""
    origin = Origin(Path(folder).name, result.metrics["seed"])
    return write_folder(folder, lambda made: write_repair(result, origin, made))


def go_on(run: Run, result: Repair, origin: Origin, earlier: pd.DataFrame | None) -> None:
    """Into the folder of the search it goes on from."""
    with locked(run.folder):
        add_to_folder(run.folder, lambda made: write_repair(result, origin, made, earlier, going_on=True))


def read_identified(run: Run) -> Identified:
    """What a search found, without model and data."""
    folder = run.folder / "identified"
    try:
        with np.load(folder / "scores.npz", allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        heard = tuple(Heard(**row) for row in json.loads((folder / "heard.json").read_text(encoding="utf-8")))
        path = folder / "edited.safetensors"
        edited = load_file(path) if path.exists() else None
        return Identified(arrays["scores"], arrays["raw"], arrays["before"], edited, heard, arrays.get("unseen"))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as e:
        raise RunMismatch(f"damaged ({' '.join(str(e).split())}); {folder}; make the run again") from None


def _identified(found: Identified, query: np.ndarray, folder: Path) -> None:
    folder.mkdir()
    arrays = {"scores": found.scores, "raw": found.raw, "before": found.before, "query": query}
    if found.unseen is not None:
        arrays["unseen"] = found.unseen
    np.savez(folder / "scores.npz", allow_pickle=False, **arrays)
    if found.edited is not None:
        save_file({k: v.detach().cpu().contiguous().clone() for k, v in found.edited.items()},
                  folder / "edited.safetensors")  # fmt: skip
    _json([h.row() for h in found.heard], folder / "heard.json")


def _decided(result: Repair, earlier: pd.DataFrame) -> pd.DataFrame:
    """All of train after the repair: decisions people made stay, and what was removed says so."""
    first = result.rounds[0]
    order = np.argsort(-first.found.scores, kind="stable")
    frame = causes_frame(
        first.found, order, after=result.after, failure_groups=first.query_groups, failure_ids=first.query
    )
    said = earlier.drop_duplicates("index").set_index("index")
    decision = said["decision"].reindex(frame["index"]).fillna("").to_numpy(dtype=object)
    decision[(decision == "") & np.isin(frame["index"], result.removed)] = result.decision
    added = [c for c in earlier.columns if c not in frame.columns]
    more = said[added].reindex(frame["index"]).reset_index(drop=True)
    return pd.concat([frame.assign(decision=decision), more], axis=1)


def _table(frame: pd.DataFrame, folder: Path) -> None:
    """causes.parquet, with what a score means in its metadata, and causes.csv for people."""
    import pyarrow
    import pyarrow.parquet

    frame.to_csv(folder / "causes.csv", index=False)
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    meta = {b"amends.score": HIGHER.encode(), **(table.schema.metadata or {})}
    pyarrow.parquet.write_table(table.replace_schema_metadata(meta), folder / "causes.parquet")


def _dataset(result: Repair, folder: Path) -> None:
    """Which of train were removed, relabelled and kept."""
    folder.mkdir()
    train = result.given["train"]
    given, ids = labels(train), train.examples.names()
    said = labels(train[result.removed], result.after)
    rows = [{"index": i, "id": i if ids is None else ids[i], "given": _cell(g)} for i, g in enumerate(given)]
    gone = set(result.removed.tolist())
    moved = [rows[i] | {"label": _cell(s)} for i, s in zip(result.removed, said, strict=True)]
    columns = ["index", "id", "given"]
    write_rows([] if result.relabelled else [rows[i] for i in result.removed], folder / "removed.csv", columns)
    write_rows(moved if result.relabelled else [], folder / "relabelled.csv", [*columns, "label"])
    write_rows([row for i, row in enumerate(rows) if i not in gone], folder / "kept.csv", columns)


def _cell(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def write_rows(rows: list[dict[str, Any]], path: Path, columns: list[str] | None = None) -> None:
    """A CSV with a header, also where there is no row."""
    with path.open("w", newline="", encoding="utf-8") as f:
        table = csv.DictWriter(f, fieldnames=columns or list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def _examples(given: Mapping[str, Factor], name: str) -> Any:
    return given[name].examples if name in given else None


def _json(value: Any, path: Path) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _toml(about: dict[str, Any], folder: Path) -> None:
    import tomli_w

    (folder / "run.toml").write_text(tomli_w.dumps(about), encoding="utf-8")


def _report(folder: Path) -> None:
    """The last file of a stage; after it all of them can be read by whoever may read the folder."""
    (folder / "report.html").write_text(report(folder), encoding="utf-8")
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(path.stat().st_mode | (folder.stat().st_mode & 0o044))
