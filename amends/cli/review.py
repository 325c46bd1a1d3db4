"""`amends review`: the causes of a run on a page, to decide about and to repair from."""

from __future__ import annotations

from pathlib import Path

import click

from amends.cli.options import run_argument, trust_option


@click.command(short_help="Look through the causes on a page, decide, repair, compare.")
@run_argument
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; one that is free when left out.")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
@click.option("--root-path", default="", help="The path the page is reached under, behind a proxy, such as /review.")
@click.option("--allow-host", multiple=True, help="A further name the page may be reached by; several times if needed.")
@click.option("--frame-ancestor", multiple=True, help="A page that may show this one inside it, by its address.")
@click.option("--host", default="127.0.0.1", help="Listen here; anything but loopback lets others in.")
@trust_option
def review(
    run: Path,
    port: int,
    no_browser: bool,
    root_path: str,
    allow_host: tuple[str, ...],
    frame_ancestor: tuple[str, ...],
    host: str,
    trust: bool,
) -> None:
    """Serve RUN as a page on this machine until interrupted, and print its address: see why each training example is
    suspected, decide, press Repair, compare before and after.

    Decisions are kept in the run folder and written to causes.csv as you make them. Each repair is a
    folder of its own, in repairs/. Nothing is sent anywhere.
    """
    from amends.web.server import Where, serve

    where = Where(host, port, root_path, allow_host, frame_ancestor)
    serve(run, where, browser=not no_browser, trust=trust)
