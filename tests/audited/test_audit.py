"""The audit sees what it should, here and in processes that tests start."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys

import pytest

import amends
from tests.audited import sitecustomize

PACKAGE = os.path.dirname(amends.__file__)
PICKLED = pickle.dumps(os.path.join)  # names a function, as hostile ones do
CONNECT = "import socket\nsocket.socket().connect(('192.0.2.1', 9))"
UNPICKLE = f"import pickle\npickle.loads({PICKLED!r})"


def from_a_file(code, *path):
    """The code as if it stood in that file."""
    return f"exec(compile({code!r}, {os.path.join(*path)!r}, 'exec'))"


def started(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )
    return done.returncode, done.stderr


def test_nothing_leaves_the_machine():
    with socket.socket() as made, pytest.raises(RuntimeError, match=r"a connection to 192\.0\.2\.1"):
        made.connect(("192.0.2.1", 9))
    code, said = started(CONNECT)
    assert code == 1
    assert "RuntimeError: a connection to 192.0.2.1" in said


def test_amends_unpickles_nothing():
    inside = from_a_file(UNPICKLE, PACKAGE, "models", "weights.py")
    with pytest.raises(RuntimeError, match=r"amends unpickles posixpath\.join"):
        exec(inside)
    code, said = started(inside)
    assert code == 1
    assert "RuntimeError: amends unpickles posixpath.join" in said
    assert started(inside, **{sitecustomize.OPTED_IN: "yes"})[0] == 0
    assert started(from_a_file(UNPICKLE, PACKAGE, "distributed", "group.py"))[0] == 0
    assert started(UNPICKLE)[0] == 0, "others may"


@pytest.mark.usefixtures("unpickling")
def test_a_test_may_opt_in():
    exec(from_a_file(UNPICKLE, PACKAGE, "models", "weights.py"))
    assert started(from_a_file(UNPICKLE, PACKAGE, "models", "weights.py"))[0] == 0
