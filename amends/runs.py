"""One folder a run, written whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amends.errors import BadInput, DiskError

if TYPE_CHECKING:
    from amends.algorithm import Repair


def write_folder(folder: Any, fill: Callable[[Path], None], *, replace: bool = False) -> Path:
    """Calls fill(empty folder), then moves the result into place in one step.

    A folder that exists is left as it is unless `replace`; then it is replaced as a whole.
    """
    target = Path(folder)
    if target.exists() and not replace:
        raise BadInput(f"the folder exists; {target}; choose another, or remove it first")
    made: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        made.chmod(0o755)
        fill(made)
        old = made.with_name(made.name + ".old")
        if target.exists():
            os.rename(target, old)
        os.rename(made, target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as e:
        raise DiskError(f"{e.strerror or e}; {target}; free some space or choose another folder") from e
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return target


def write_repair(result: Repair, folder: Path) -> None:
    """The files of a repair, into a folder that exists."""
    from safetensors.torch import save_model

    result.causes.to_csv(folder / "causes.csv", index=False)
    (folder / "metrics.json").write_text(json.dumps(result.metrics, indent=2, ensure_ascii=False) + "\n")
    (folder / "repaired").mkdir()
    save_model(result.model, str(folder / "repaired" / "model.safetensors"))
    with (folder / "curve.csv").open("w", newline="") as f:
        rows = result.metrics["curve"]
        table = csv.DictWriter(f, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def save_repair(result: Repair, folder: Any) -> Path:
    return write_folder(folder, lambda made: write_repair(result, made))
