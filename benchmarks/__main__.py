"""Runs the benchmarks: `python -m benchmarks --help` says how."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import page
from benchmarks.disk import file_system
from benchmarks.options import Options, say

BENCHMARKS = {
    "conversation": "conversation",
    "growth": "growth",
    "latency": "latency",
    "concurrency": "concurrency",
    "crowd": "crowd",
    "restore": "restoring",
    "read": "reading",
    "list": "listing",
    "open": "opening",
    "import": "importing",
    "conversations": "conversations",
    "calls": "calling",
    "steps": "steps",
    "recover": "recovering",
    "agents": "orchestrating",
    "drift": "drift",
}


def main() -> None:
    options, arguments = _asked_for()
    kind = file_system(options.directory.parent)
    if kind in ("tmpfs", "ramfs"):
        say(f"NOTE: {options.directory} is in memory ({kind}): nothing here says how long a disk takes.")
    results, load = [], os.getloadavg()[0]
    for name in options.names or BENCHMARKS:
        say(f"{name} …")
        for result in import_module(f"benchmarks.{BENCHMARKS[name]}").measure(options):
            results.append(result)
            print(result.text(), flush=True)
    missed = [f"{result.name}: {target}" for result in results for target in result.targets if not target.met]
    print("Every target was met." if not missed else "\n".join(["Missed:", *(f"  {line}" for line in missed)]))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n", encoding="utf-8")
    if arguments.write:
        given = ["--conversations", arguments.conversations.name] if arguments.conversations else []
        command = " ".join(["python -m benchmarks", *arguments.names, *(["--quick"] if options.quick else []), *given])
        arguments.write.write_text(page.markdown(results, options, command=command, load=load), encoding="utf-8")


def _asked_for() -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Holdfast beside other ways of doing the same. Times mean little; their ratios mean more.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; after drift, FILES of runs")
    parser.add_argument("--quick", action="store_true", help="a few minutes, with less to go by")
    parser.add_argument("--conversations", type=Path, help='conversations to keep, a line each: {"messages": […]}')
    parser.add_argument("--dir", type=Path, default=Path("build/bench"), help="where to work: on the disk to measure")
    parser.add_argument("--json", type=Path, help="also write what was found here")
    parser.add_argument("--write", type=Path, help="also write a page here, in Markdown, and pictures beside it")
    arguments = parser.parse_args()
    names = tuple(name for name in arguments.names if name in BENCHMARKS)
    files = tuple(Path(name) for name in arguments.names if name not in BENCHMARKS)
    missing = [str(path) for path in files if "drift" not in names or not path.is_file()]
    if missing:
        parser.error(f"there is no benchmark, and no file of runs for drift: {', '.join(missing)}")
    arguments.dir.mkdir(parents=True, exist_ok=True)
    options = Options(
        directory=arguments.dir,
        names=names,
        files=files,
        quick=arguments.quick,
        conversations=arguments.conversations,
        pictures=arguments.write.parent if arguments.write else arguments.dir,
    )
    return options, arguments


if __name__ == "__main__":
    main()
