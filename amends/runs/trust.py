"""Whether the code a run folder names may be run: in a run made here yes, in one from elsewhere only with --trust."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amends.errors import BadInput

FUNCTIONS = ("function", "transform", "augment")  # keys of a config that name a function to run


def functions(tables: Mapping[str, Any]) -> Iterator[str]:
    """The functions that a config names, in any table."""
    keep = tables.get("keep", {})
    for table in [*(t for name, t in tables.items() if name != "keep"), *keep.values()]:
        yield from (str(table[key]) for key in FUNCTIONS if isinstance(table, Mapping) and table.get(key))


def _code(tables: Mapping[str, Any]) -> Iterator[str]:
    """All code that a config would run: its functions, and a pickle."""
    yield from functions(tables)
    repair = tables.get("repair", {})
    if isinstance(repair, Mapping) and repair.get("unsafe_pickle"):
        yield "what is pickled in its weights"


def signature(config: Mapping[str, Any], folder: str) -> str:
    """Signs what a run would load with a key that only this user on this machine has; empty if no key can be kept."""
    key = _key()
    content = json.dumps([config, folder], sort_keys=True, default=str).encode()
    return "" if key is None else hmac.new(key, content, hashlib.sha256).hexdigest()


def ask_for_trust(about: Mapping[str, Any], where: Path) -> None:
    """BadInput where run.toml names code to run and was not written here."""
    config, run = about.get("config", {}), about.get("run", {})
    named = next(_code(config), None) if isinstance(config, Mapping) else None
    signed = str(run.get("signed", "")) if isinstance(run, Mapping) else ""
    if named is None or (signed and hmac.compare_digest(signed, signature(config, str(run.get("folder", ""))))):
        return
    raise BadInput(
        f"this run was not made here, and it would run {named}; {where}; look at its run.toml, then give --trust"
    )


def ask_for_trust_in(config: Path) -> None:
    """The same for a run.toml that is given as a config."""
    try:
        tables = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # reading it later raises
    if "run" in tables and "config" in tables:
        ask_for_trust(tables, config)


def _key() -> bytes | None:
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    path = home / "amends" / "key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return path.read_bytes() or None
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
        return path.read_bytes()
    except OSError:
        return None
