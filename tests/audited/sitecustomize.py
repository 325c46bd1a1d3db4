"""What no test may do, nor any process that a test starts: Python imports this file as it begins, wherever this folder
is on its path. No connection beyond this machine, and no unpickling by amends but in a test that does so on purpose."""

from __future__ import annotations

import os
import sys

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PACKAGE, OPTED_IN = "AMENDS_TESTED", "AMENDS_TEST_UNPICKLES"  # of the environment: the folder of amends, and "yes"
OWN = os.path.join("distributed", "")  # what processes of one group tell each other is theirs


def audited(event: str, args: tuple) -> None:
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] not in LOOPBACK:
        raise RuntimeError(f"a connection to {args[1][0]}")
    if event == "pickle.find_class" and os.environ.get(OPTED_IN) != "yes":
        package = os.environ.get(PACKAGE, "")
        frame = sys._getframe(1)
        while frame is not None and package:
            name = frame.f_code.co_filename
            if os.path.basename(name) == "copy.py" or name.startswith(os.path.join(package, OWN)):
                return  # an object in memory, copied by way of a pickle, or sent to another process of the group
            if name.startswith(os.path.join(package, "")):
                raise RuntimeError(f"amends unpickles {args[0]}.{args[1]}")
            frame = frame.f_back


sys.addaudithook(audited)
