"""`torchrun -m amends`: the verbs in several processes, and what is said when one of them is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from amends.errors import BadInput
from tests.distributed.processes import CONTEXT, PATIENCE
from tests.projects import amends, digits_project

ASK = ["--method", "functional", "--batch-size", "16", "-q"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    digits_project(folder)
    return folder


def started(world: int, folder: Path, *args: str, during: str = "", error: str = "") -> list:
    """As torchrun starts them, from a server that has torch already. `during` names what of a Problem rank 1 is killed
    in, or stops in with an `error`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = (world, port, folder, list(args), during, error)
    processes = [CONTEXT.Process(target=_rank, args=(rank, *given)) for rank in range(world)]
    for process in processes:
        process.start()
    return processes


def _rank(rank: int, world: int, port: int, folder: Path, args: list[str], during: str, error: str) -> None:
    os.chdir(folder)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port)}  # fmt: skip
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr, sys.__stderr__ = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2, 2))
    sys.argv = ["amends", *args]
    if during and rank == 1:
        from amends.algorithm.problem import Problem

        setattr(Problem, during, lambda *_: _stop(error))
    from amends.cli.app import main
    from amends.workflow import fits

    fits.SHORT = 0.0  # as if every fit took long
    main()


def _stop(error: str) -> None:
    if error:
        raise BadInput(error)
    os.kill(os.getpid(), signal.SIGKILL)


def ended(processes: list) -> list[int]:
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        process.join(timeout=max(0.1, deadline - time.monotonic()))
        process.kill()
        process.join()  # it holds the lock of its run until it is gone
    return [process.exitcode for process in processes]


def test_a_worker_that_is_killed_is_named_in_one_line_and_the_rerun_goes_on(project):
    """Killed after the search was stored: what was found is not computed again when torchrun itself goes on with it,
    and the end is that of one process."""
    ask = ["repair", "-o", "runs/killed", "--top", "20", *ASK]
    codes = ended(started(3, project, *ask, during="treat"))
    assert (codes[0], codes[1]) == (1, -signal.SIGKILL)
    said = (project / "rank-0.log").read_text().splitlines()
    assert [line for line in said if line.startswith("error")] == [
        f"error: rank 1 was lost, killed from outside or for want of memory; {socket.gethostname()}; "
        "start the same command again: what was finished is kept"
    ]
    assert (project / "rank-2.log").read_text() == ""
    stored = (project / "runs/killed/identified/scores.npz").stat().st_mtime_ns
    run = [sys.executable, "-P", "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "amends"]
    done = subprocess.run([*run, *ask, "--json"], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["removed"] >= 0  # one document, printed once
    assert (project / "runs/killed/identified/scores.npz").stat().st_mtime_ns == stored
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        assert amends(*ask[:2], "runs/alone", *ask[3:]) == 0
    for name in ("causes.csv", "metrics.json", "identified/scores.npz", "repaired/model.safetensors"):
        assert (project / "runs/killed" / name).read_bytes() == (project / "runs/alone" / name).read_bytes(), name


def test_fits_that_take_long_are_made_by_every_process_and_kept_by_none(project):
    """One that is not the first must not write into the run, which the first holds."""
    assert ended(started(2, project, "repair", "-o", "runs/long", "--top", "20", "--no-learn", *ASK)) == [0, 0]
    assert not (project / "runs/long/fits").exists()


def test_a_search_whose_steps_are_spread_says_so_and_is_close_to_that_of_one_process(project):
    """Bytes differ, which shows that the steps were shared. L-BFGS in float32 magnifies the rounding: to below a
    hundredth on one processor, to a tenth on another."""
    ask = ["identify", "--method", "functional", "-q"]
    assert ended(started(2, project, *ask, "-o", "runs/spread", "--spread")) == [0, 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        assert amends(*ask, "-o", "runs/single", "--spread") == 0
        assert amends(*ask, "-o", "runs/plain") == 0
    many, one, plain = (np.load(project / f"runs/{name}/identified/scores.npz")["scores"]
                        for name in ("spread", "single", "plain"))  # fmt: skip
    assert (one == plain).all()
    assert 0 < np.linalg.norm(many - one) < 0.2 * np.linalg.norm(one)
    assert "spread = true" in (project / "runs/spread/run.toml").read_text()


def test_an_error_is_said_once(project):
    codes = ended(started(2, project, "identify", "-o", "runs/none", "--method", "functional", "--group", "7->7", "-q"))
    assert codes[0] == 2
    said = (project / "rank-0.log").read_text()
    assert len(re.findall("^error: ", said, re.MULTILINE)) == 1
    assert not (project / "runs/none").exists()
    assert (project / "rank-1.log").read_text() == ""


def test_an_error_of_one_rank_alone_is_said_with_its_number(project):
    ask = ["identify", "-o", "runs/none", *ASK]
    assert ended(started(2, project, *ask, during="_from", error="the disk is gone; x.npy; mend it")) == [1, 2]
    assert (project / "rank-0.log").read_text() == "error: rank 1: the disk is gone; x.npy; mend it\n"
