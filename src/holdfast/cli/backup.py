"""`holdfast backup` and `restore-backup`: a store copied as of one moment, and put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.cli.command import Invocation, command, run


@command("backup", examples="holdfast backup /mnt/backups/checkpoints-$(date +%F).db")
@click.argument("target", metavar="TARGET")
@click.option("--overwrite", is_flag=True, help="Replace a store that is there already.")
def backup_command(invocation: Invocation, *, target: str, overwrite: bool) -> None:
    """Copy the store and its key while programs go on.

    The copy is of one moment. TARGET is the copy's file; its key is put beside it. Keep it as safe as the store.
    """
    from holdfast.cli.opening import sqlite_path

    path = sqlite_path(invocation, "be backed up like this (copy the folder)")
    _told(invocation, run(_backup(path, Path(target), overwrite=overwrite)), f"{path} was copied to {target}")


async def _backup(path: Path, target: Path, *, overwrite: bool) -> Any:
    from holdfast.cli.opening import sqlite
    from holdfast.cli.output import progress

    storage = sqlite(path, read_only=True)
    try:
        return await storage.backup(target, progress(), overwrite=overwrite)
    finally:
        await storage.close()


@command("restore-backup", examples="holdfast --store checkpoints.db restore-backup checkpoints-2026-03-01.db")
@click.argument("source", metavar="SOURCE")
@click.option("--overwrite", is_flag=True, help="Replace the store that is there already.")
def restore_backup_command(invocation: Invocation, *, source: str, overwrite: bool) -> None:
    """Put a backup in the store's place, if it is whole.

    The store is the one of --store; no program may have it open.
    """
    from holdfast.cli.opening import existing, store_name, store_path
    from holdfast.storage.sqlite.backup import restore_backup

    origin, target = existing(source), store_path(store_name(invocation))
    _told(invocation, restore_backup(origin, target, overwrite=overwrite), f"{target} is as {source} was")


def _told(invocation: Invocation, done: Any, sentence: str) -> None:
    from holdfast.cli.output import say, say_json

    if invocation.json:
        say_json(done)
    else:
        say(sentence)
