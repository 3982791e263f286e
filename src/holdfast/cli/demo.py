"""`holdfast demo`: a program is killed between a payment and its receipt, and goes on in another process."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from holdfast.cli.command import Invocation, command
from holdfast.errors import DuplicateId


@command("demo", examples="holdfast demo --keep demo && holdfast --store demo/clerk.db export clerk")
@click.option("--keep", metavar="DIR", help="Keep the store and the ledgers in this folder, to look around.")
def demo_command(invocation: Invocation, keep: str | None) -> None:
    """Show in a few seconds what Holdfast does.

    A program that a model wrote charges cards and ships parcels. Its process is killed when the bank has taken the
    money and the program has not heard of it. Another process goes on, and the bank's own ledger shows how often each
    order was paid. The exit code is 0 only if all of it was as it should be.

    Nothing is canned but the program: the processes, the kill and every number are real. No network is used.
    """
    import tempfile

    _check_sandbox()
    if keep is not None:
        if Path(keep).exists() and any(Path(keep).iterdir()):
            raise DuplicateId(f"There is something in {keep} already", hint="Name another folder with --keep.")
        Path(keep).mkdir(parents=True, exist_ok=True)
    from holdfast.cli.demo_acts import Demo

    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        told = Demo(Path(directory), kept=keep is not None, quiet=invocation.json).play()
    if invocation.json:
        from holdfast.cli.output import say_json

        say_json({**told, "store": str(Path(keep) / "clerk.db") if keep else None})


def _check_sandbox() -> None:
    """Programs can run here: what is missing is told now, and not by a process that is to be killed."""
    from holdfast.durable.runs.seats import Seats

    seats = Seats(1)
    seats.pool()
    seats.close_now()
