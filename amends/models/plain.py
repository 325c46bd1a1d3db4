"""A model from the user's own function, with weights from a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from torch import nn

from amends.errors import BadInput, first_line, kind_of
from amends.models.estimators import is_skorch, module_of
from amends.models.loaded import Loaded, write_weights
from amends.models.weights import put_weights, read_weights


def load_plain(
    function: str, options: Mapping[str, Any], weights: str | Path | None, folder: Path, unsafe_pickle: bool = False
) -> Loaded:
    """`function` is called with `options` and returns the network or a skorch net; without `weights`, it keeps
    its own."""
    make = function_named(function, folder)
    with importable(folder):
        try:
            model = make(**options)
        except MemoryError:
            raise
        except (Exception, SystemExit) as e:
            raise BadInput(
                f"the function raised {type(e).__name__}: {first_line(e)}; function {function}; correct it"
            ) from e
    module = model.module_ if is_skorch(model) and getattr(model, "initialized_", False) else model
    if not isinstance(module, nn.Module):
        raise BadInput(
            f"the function returns {kind_of(model)}, expected an nn.Module; function {function}; return the network"
        )
    source = getattr(sys.modules.get(make.__module__), "__file__", None)
    files = [Path(source)] if source else []
    if weights is not None:
        path = folder / weights
        with importable(folder):  # a pickle may name classes that are defined there
            state = read_weights(path, unsafe_pickle)
        put_weights(module, state, f"weights {path}")
        files.append(path)
    if module is model:
        return Loaded(model=model, write=write_weights, files=tuple(files))
    net = module_of(model)

    def write(repaired: nn.Module, into: Path) -> None:
        write_weights(net.back(repaired).module_, into)

    return Loaded(model=net.module, write=write, likelihood=net.likelihood, files=tuple(files))


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Inside, modules of `folder` can be imported, and no bytecode is written there."""
    path, written = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder.resolve()))
    sys.dont_write_bytecode = True
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, written


def function_named(function: str, folder: Path, where: str = "function") -> Callable[..., Any]:
    """The function called "package.module:function"; modules are looked for in `folder` first."""
    module, colon, name = function.partition(":")
    if not colon or not module or not name:
        raise BadInput(f"function is {function!r}; {where}; give package.module:function")
    with importable(folder):
        return _imported(module, name, folder, f"{where} {function}")


def _imported(module: str, name: str, folder: Path, where: str) -> Callable[..., Any]:
    _forget_another(module.partition(".")[0], folder, where)
    try:
        value: Any = import_module(module)
    except ModuleNotFoundError as e:
        raise BadInput(f"{first_line(e)}; {where}; put it into {folder.resolve()}, or install it") from e
    except MemoryError:
        raise
    except (Exception, SystemExit) as e:
        raise BadInput(f"importing {module} raised {type(e).__name__}: {first_line(e)}; {where}; correct it") from e
    for part in name.split("."):
        if not hasattr(value, part):
            raise BadInput(f"{module} has no {name}; {where}; check the name")
        value = getattr(value, part)
    if not callable(value):
        raise BadInput(f"{name} is {kind_of(value)}; {where}; give a function or a class")
    return value


def _forget_another(top: str, folder: Path, where: str) -> None:
    """Forgets a module of the same name that was imported from another folder; an installed one is an error."""
    cached = sys.modules.get(top)
    spec = PathFinder.find_spec(top, [str(folder.resolve())])
    if cached is None or spec is None or _origin(spec) == _origin(cached.__spec__):
        return
    installed = PathFinder.find_spec(top, sys.path[1:])
    if top in sys.builtin_module_names or (installed is not None and _origin(installed) == _origin(cached.__spec__)):
        raise BadInput(f"{top} is also the name of an installed module; {where}; rename your file")
    for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
        del sys.modules[name]


def _origin(spec: Any) -> Any:
    """The file of a module; for a package without __init__.py, its folders."""
    return spec and (spec.origin or tuple(spec.submodule_search_locations or ()))
