"""A config from a file, checked key by key before anything is loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amends.config.keys import REPAIR, SHARED, TABLES, Key
from amends.errors import BadInput, nearest


@dataclass(frozen=True)
class Config:
    """The tables of an amends.toml, checked; paths are relative to `folder`."""

    tables: Mapping[str, Mapping[str, Any]]
    folder: Path
    where: str

    def __getitem__(self, table: str) -> Mapping[str, Any]:
        return self.tables.get(table, {})

    def repair(self, key: str) -> Any:
        """A key of [repair], or its default when it is left out."""
        return self["repair"].get(key, REPAIR[key].default)

    def path(self, table: str, key: str) -> Path | None:
        value = self[table].get(key)
        return None if value is None else self.folder / value

    def set(self, table: str) -> dict[str, Any]:
        """The keys of one data set; those it does not have come from [data]."""
        name, _, which = table.partition(".")
        own = self[name].get(which, {}) if which else self[name]
        return {**self["data"], **own}

    @property
    def keep(self) -> list[str]:
        return list(self["keep"])

    def where_is(self, table: str) -> str:
        return f"{self.where} [{table}]"

    def with_options(self, **options: Any) -> Config:
        """The config with options of the command line as keys of [repair], or of every data set; None means not
        given."""
        given = {k: v for k, v in options.items() if v is not None}
        if not given:
            return self
        shared = {k: given.pop(k) for k in SHARED if k in given}
        if shared:
            return self._of_every_set(shared).with_options(**given)
        both = dict(self["repair"])
        for one, other in (("top", "fraction"), ("fraction", "top")):
            if one in given and other not in given:
                both.pop(other, None)
        tables = {**self.tables, "repair": {**both, **given}}
        return as_config(tables, self.folder, self.where)

    def _of_every_set(self, keys: Mapping[str, Any]) -> Config:
        def less(table: Mapping[str, Any]) -> dict[str, Any]:
            return {k: less(v) if isinstance(v, Mapping) else v for k, v in table.items() if k not in keys}

        sets = {name: less(table) if "path" in TABLES[name] else table for name, table in self.tables.items()}
        return as_config({**sets, "data": {**self["data"], **keys}}, self.folder, self.where)


def read_config(path: Path) -> Config:
    """The config in a file: an amends.toml, or the run.toml of a run to make again."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(f"no such file; {path}; write one with amends init, or give its path") from None
    except IsADirectoryError:
        raise BadInput(f"this is a folder, not a file; {path}; give the config file itself") from None
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"the config cannot be read ({e}); {path}; give a text file in UTF-8") from None
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise BadInput(f"not valid TOML ({e}); {path}; correct that line") from None
    if "run" in tables and "config" in tables:
        return as_config(tables["config"], Path(tables["run"].get("folder", path.parent)), str(path))
    return as_config(tables, path.parent, str(path))


def as_config(tables: Mapping[str, Any], folder: Path, where: str) -> Config:
    """A Config, checked: every key is known, every value has its type, and nothing needed is missing."""
    for name, table in tables.items():
        homes = [t for t, keys in TABLES.items() if name in keys and t != "keep"]
        if name not in TABLES and homes and not isinstance(table, Mapping):
            todo = f"write it below [{homes[0]}]; is the line with the header commented out?"
            raise BadInput(f"{name} is a key outside of every table; {where}; {todo}")
        if name not in TABLES:
            raise BadInput(f"unknown table [{name}]; {where}; {nearest(name, TABLES)}")
        if not isinstance(table, Mapping):
            raise BadInput(f"{name} is {table!r}, expected a table; {where}; write [{name}] with its keys below")
        for part, keys in table.items() if name == "keep" else [("", table)]:
            at = f"{where} [{name}.{part}]" if part else f"{where} [{name}]"
            if not isinstance(keys, Mapping):
                raise BadInput(f"{part} is {keys!r}, expected a table; {where} [keep]; write [keep.{part}]")
            for key, value in keys.items():
                _check(TABLES[name], key, value, at)
    config = Config(tables, folder, where)
    _whole(config)
    return config


def _check(known: Mapping[str, Key], key: str, value: Any, where: str) -> None:
    if key not in known:
        raise BadInput(f"unknown key {key}; {where}; {nearest(key, known)}")
    rule = known[key]
    held = value if isinstance(value, list) and rule.items else ()
    if not _is_one_of(value, rule.kinds) or not all(_is_one_of(one, (rule.items or object,)) for one in held):
        raise BadInput(f"{key} is {value!r}, expected {rule.kind}; {where}; change it")
    if rule.choices and isinstance(value, str) and value not in rule.choices:
        also = ("a number",) if float in rule.kinds else ()
        raise BadInput(f"{key} is {value!r}; {where}; {nearest(value, (*rule.choices, *also))}")


def _is_one_of(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


def _whole(config: Config) -> None:
    """Checks rules that involve several keys."""
    model, failures = config["model"], config["failures"]
    if not ("function" in model or "huggingface" in model):
        raise BadInput(f"no model; {config.where_is('model')}; give function or huggingface")
    if "function" in model and "huggingface" in model:
        raise BadInput(f"two models; {config.where_is('model')}; give function or huggingface, not both")
    if "path" not in config["train"]:
        raise BadInput(f"no path; {config.where_is('train')}; give the path of the data the model learned from")
    picked = [k for k in ("path", "ids", "indices") if k in failures]
    if len(picked) > 1:
        raise BadInput(f"both {' and '.join(picked)}; {config.where_is('failures')}; give one of them")
    looked_up = bool(picked) and picked[0] != "path"
    if (looked_up or not picked) and "path" not in config["evaluation"]:
        what = f"{picked[0]} of failures without an evaluation set" if looked_up else "no failures"
        raise BadInput(f"{what}; {config.where}; give a path in [evaluation] or in [failures]")
    for name in config.keep:
        if "path" not in config["keep"][name]:
            raise BadInput(f"no path; {config.where_is(f'keep.{name}')}; give the path of this set")
    if "top" in config["repair"] and "fraction" in config["repair"]:
        raise BadInput(f"both top and fraction; {config.where_is('repair')}; give one of them")
    if "require" in config["repair"]:
        requirements(config["repair"]["require"])


MEASURED = ("query", "holdout", "remaining", "overall")


def requirements(text: str) -> list[tuple[str, float]]:
    """What must hold after a repair, from "holdout>=0.5,remaining>=0.98"."""
    required = []
    for part in text.split(","):
        name, sign, value = part.partition(">=")
        name = name.strip()
        try:
            least = float(value)
        except ValueError:
            least = -1.0
        if not sign or not 0 <= least <= 1:
            raise BadInput(f'cannot read {part.strip()!r}; require; write it as "holdout>=0.5,remaining>=0.98"')
        if name not in MEASURED:
            raise BadInput(f"{name} is not measured; require; {nearest(name, MEASURED)}")
        required.append((name, least))
    return required


def unmet(text: str | None, metrics: Mapping[str, Any]) -> list[str]:
    """The requirements that the measured accuracies do not meet, in words."""
    missed = []
    for name, least in requirements(text) if text else []:
        after = (metrics.get(name) or {}).get("after")
        if after is None or after < least:
            missed.append(f"{name} is {'not measured' if after is None else f'{after:.3f}'}, required {least:g}")
    return missed


def absolute(config: Config) -> Config:
    """The config with the absolute path of its folder, so that it can be used from anywhere."""
    return replace(config, folder=config.folder.resolve())
