"""`holdfast key`: the key that authenticates what a store holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from holdfast.cli.command import Group, Invocation, command, epilog, run, shared_options
from holdfast.errors import KeyMissing, Refused


@click.group("key", cls=Group, epilog=epilog("holdfast key show\nholdfast key rotate"))
def key_command() -> None:
    """Show, rotate or reset the key of a store.

    It is in a file beside the database (checkpoints.db.key), or in HOLDFAST_KEY. Whoever can read it can forge;
    whoever has lost it can still read.
    """


@command("show", examples="holdfast key show\nHOLDFAST_KEY=$(holdfast key show --secret) python agent.py")
@click.option("--secret", is_flag=True, help="The keys themselves, as HOLDFAST_KEY takes them.")
def show_command(invocation: Invocation, *, secret: bool) -> None:
    """Show the store's keys by their fingerprints."""
    from holdfast.cli.opening import sqlite_path
    from holdfast.cli.output import say, say_json
    from holdfast.storage import keys

    path = sqlite_path(invocation, "have a key")
    run(_check(invocation))
    given = keys.explicit_ring(None)
    file = keys.key_path(path)
    ring = given or keys.read_ring(file)
    if ring is None:
        raise KeyMissing(f"The key of {path} is missing", path=str(path))
    source = keys.ENVIRONMENT if given else str(file)
    if secret:
        text = ",".join(keys.ring_text(ring).split())
        say_json({"source": source, "ring": text}) if invocation.json else say(text)
        return
    prints = keys.fingerprint(ring)
    if invocation.json:
        say_json({"source": source, "current": ring.current, "fingerprints": prints})
        return
    for number, print_ in prints.items():
        say(f"key {number}  {print_}{'  current' if int(number) == ring.current else ''}")
    say(f"from {source}")


async def _check(invocation: Invocation) -> None:
    """A key that did not write the store is an error here, too."""
    from holdfast.cli.opening import reading

    async with reading(invocation) as manager:
        await manager.store.agent("")


@command("rotate", examples="holdfast key rotate")
def rotate_command(invocation: Invocation) -> None:
    """Add a new key and write with it from now on; older records keep theirs."""
    from holdfast.cli.opening import sqlite_path
    from holdfast.cli.output import say, say_json

    sqlite_path(invocation, "have a key")
    number = run(_rotate(invocation))
    if invocation.json:
        say_json({"current": number})
    else:
        say(f"key {number} is the current one now; keep the older ones, they authenticate what was written before")


async def _rotate(invocation: Invocation) -> int:
    from holdfast.cli.opening import existing, sqlite, store_name

    storage = sqlite(existing(store_name(invocation)))
    try:
        return await storage.rotate_key()
    finally:
        await storage.close()


@command("reset", examples="holdfast key reset --yes")
@click.option("--yes", is_flag=True, help="Do it without asking.")
def reset_command(invocation: Invocation, *, yes: bool) -> None:
    """Begin a new key for a store whose key was lost.

    What the unkeyed hashes confirm is authenticated anew, whoever wrote it; snapshots are dropped, and runs are
    replayed from their records. Stop every program that uses the store first.
    """
    import sys

    from holdfast.cli.opening import sqlite_path
    from holdfast.cli.output import say, say_json
    from holdfast.history.preview import escape
    from holdfast.storage.sqlite import rekey
    from holdfast.storage.sqlite.session import Settings

    path = sqlite_path(invocation, "have a key")
    if not yes:
        if not sys.stdin.isatty():
            raise Refused("A new key trusts whatever the store holds now", hint="Say --yes if that is what you want.")
        click.confirm(f"Trust whatever {path} holds now, and give it a new key?", abort=True, err=True)
    done: dict[str, Any] = rekey.reset(Settings(path=path, now=lambda: datetime.now(UTC)))
    if invocation.json:
        say_json(done)
        return
    for name, value in done.items():
        told = ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else value
        say(escape(f"{name.replace('_', ' ')}: {told}"))


key_command.params.extend(shared_options())
key_command.add_command(show_command)
key_command.add_command(rotate_command)
key_command.add_command(reset_command)
