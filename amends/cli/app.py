"""The commands by name, without importing torch; every error becomes one line and an exit code."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from types import FrameType

import click

from amends import __version__
from amends.cli.many import is_one_of_many, run_as_one
from amends.errors import (
    AmendsError,
    BadInput,
    DiskError,
    Locked,
    NonFinite,
    NotConverged,
    OutOfMemory,
    RunMismatch,
    WorkerLost,
    first_line,
    visible,
)

COMMANDS = {
    "init": "Write a commented amends.toml.",
    "check": "Load model and data, try one batch, write nothing.",
    "identify": "Find the training examples behind the failures.",
    "merge": "Make one search of its shards.",
    "curve": "Show how many to remove, next to both controls.",
    "treat": "Forget causes that were identified, and judge the result.",
    "repair": "Find the causes, forget them, and judge the result.",
    "review": "Look through the causes on a page, decide, repair, compare.",
    "report": "Write report.html again from a run folder.",
    "export": "Hand cleaned data, decisions or results to another tool.",
    "patch": "Write a repair as a small file beside the model.",
    "apply": "Put a patch on the weights it was made for.",
    "revert": "Take a patch off weights it was put on.",
    "judge": "Judge a model on your data, before and after a patch.",
    "verify": "Check every file of a run folder against its manifest.",
    "runs": "List, show, compare and remove run folders.",
    "demo": "See a real model fail, its causes found, and the model repaired; a minute and a half.",
    "reproduce": "Run an experiment of the paper, in a checkout of the source.",
}

EXIT = (
    (BadInput, 2), (RunMismatch, 3), (Locked, 4), (DiskError, 5), (NonFinite, 6), (NotConverged, 6), (OutOfMemory, 7),
    (WorkerLost, 143),
)  # fmt: skip


AGAIN = 3.0  # seconds in which a second signal counts as the first
NAMES = (errno.ENAMETOOLONG, errno.ELOOP)  # errors of a path the user wrote, not of the disk
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENFILE)


class Lazy(click.Group):
    """Lists its commands from a table and imports one only when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            close = get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"no command {cmd_name!r}" + (f", did you mean {close[0]}?" if close else ""))
        return getattr(import_module(f"amends.cli.{cmd_name}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="amends")
def cli() -> None:
    """Find the training data behind a model's failures, and repair the model by making it forget them.

    With --debug anywhere, an error shows its traceback.
    """


class Terminated(BaseException):
    """SIGTERM as an exception, so that half-written files are removed."""


def _heed() -> None:
    """SIGINT and SIGTERM stop the program once. `timeout` and impatient people send two signals: the second one must
    not interrupt the clean-up."""
    last = [float("-inf")]

    def stop(number: int, frame: FrameType | None) -> None:
        before, last[0] = last[0], time.monotonic()
        if last[0] - before > AGAIN:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, stop)


def code_of(error: BaseException) -> int:
    """The exit code of an error."""
    for kind, code in EXIT:
        if isinstance(error, kind):
            return code
    return 70


def run(args: list[str]) -> int:
    """The whole program, without leaving Python."""
    debug = "--debug" in args
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.simplefilter("ignore")  # warnings of other libraries
                warnings.filterwarnings("always", category=UserWarning, module="amends")
                warnings.showwarning = _once()
            result = cli.main(
                args=[a for a in args if a != "--debug"] or ["--help"], prog_name="amends", standalone_mode=False
            )
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted; nothing half-written is left behind", "stopped")
        return 130
    except Terminated:
        _say("terminated; nothing half-written is left behind", "stopped")
        return 143
    except click.exceptions.NoArgsIsHelpError as e:  # a group of commands, and none of them
        click.echo(e.format_message())
        return 0
    except click.ClickException as e:
        where = getattr(getattr(e, "ctx", None), "command_path", "amends")
        _say(f"{e.format_message().rstrip('.')}; {where}; see {where} --help")
        return 2
    except (BrokenPipeError, SystemExit):  # click makes the second of the first
        if not _nobody_reads():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        return 141
    except AmendsError as e:
        if debug:
            traceback.print_exc()
        _say(str(e))
        return code_of(e)
    except Exception as e:
        if debug:
            traceback.print_exc()
        return _unforeseen(e, args)


def _unforeseen(e: Exception, args: list[str]) -> int:
    """Reports an error that no part of amends expects: the machine's limits, or else a bug."""
    command = " ".join(args[:1])
    if is_memory(e):
        _say(f"out of memory ({first_line(e)}); {command}; give a smaller batch_size, or more memory")
        return 7
    if is_disk(e):
        _say(f"{first_line(e)}; {command}; check the disk, its permissions and the limit of open files")
        return 5
    if isinstance(e, OSError) and e.errno in NAMES:
        _say(f"{e.strerror}; {e.filename}; give another path")
        return 2
    _say(f"{type(e).__name__}: {' '.join(str(e).split())}; a bug of amends; run again with --debug and report it")
    return code_of(e)


def is_memory(error: BaseException) -> bool:
    """Whether memory ran out, by the errors of Python, torch and numpy."""
    message = str(error).lower()
    by_torch = isinstance(error, RuntimeError) and ("can't allocate memory" in message or "out of memory" in message)
    unloaded = isinstance(error, ImportError) and ("failed to map" in message or "cannot allocate memory" in message)
    return isinstance(error, MemoryError) or by_torch or unloaded


def is_disk(error: BaseException) -> bool:
    """Whether the system refused a file, by the errors of Python and torch."""
    if isinstance(error, OSError):
        return error.errno in DISK
    message = str(error)
    return isinstance(error, RuntimeError | ImportError) and any(os.strerror(number) in message for number in DISK)


def _nobody_reads() -> bool:
    """Whether stdout is a pipe whose reader has gone."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _once() -> Callable[..., None]:
    """Shows a warning as one line, the first time it comes."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: object) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            _say(text, "warning")

    return show


def _say(text: str, kind: str = "error") -> None:
    print(f"{kind}: {visible(text)}", file=sys.stderr)


def main() -> None:
    _heed()
    for name in ("stdout", "stderr"):  # closed by the parent process: output then goes nowhere
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    args = sys.argv[1:]
    code = run_as_one(args, run) if is_one_of_many() else run(args)
    if code in (130, 143):  # it has stopped already
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(code)
