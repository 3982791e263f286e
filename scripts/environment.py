"""Make a virtual environment that has the pinned requirements and this project in it, or do nothing if it is there.

    python scripts/environment.py DIRECTORY SET [--no-project]

SET is a file of `requirements/` without its `.txt`. The environment remembers where it was made, by which
Python and from which requirements, so that a second call returns at once, changed requirements are installed
again, and an environment that was copied, broken or made by another Python is made anew.
Only the standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "holdfast-environment.json"

# What a set contains besides itself: whoever ran the tests need not install anything for the demo.
CONTAINS = {"test": ("runtime", "python", "models"), "models": ("runtime", "python"), "python": ("runtime",)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make or refresh a virtual environment.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--no-project", action="store_true", help="install the requirements alone")
    options = parser.parse_args()
    directory = options.directory.absolute()
    wanted = {name: fingerprint(ROOT / "requirements" / f"{name}.txt") for name in options.sets}
    if not options.no_project:
        wanted["project"] = fingerprint(ROOT / "pyproject.toml")

    installed = what_is_in(directory)
    if installed is None:
        create(directory)
        installed = {}
    missing = [name for name in wanted if installed.get(name) != wanted[name]]
    if not missing:
        return
    # Until everything is installed nothing is remembered: an interrupted installation is repeated.
    (directory / MARK).unlink(missing_ok=True)
    install(directory, missing)
    for name in options.sets:
        installed |= {part: fingerprint(ROOT / "requirements" / f"{part}.txt") for part in CONTAINS.get(name, ())}
    remember(directory, installed | wanted)


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def identity(directory: Path) -> dict[str, str]:
    """What makes an environment unusable when it changes: paths are written into its scripts."""
    return {"where": str(directory), "project": str(ROOT), "python": python_version()}


def python_version() -> str:
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def what_is_in(directory: Path) -> dict[str, str] | None:
    """The fingerprints of what is installed there; None if there is no environment that can be used."""
    if not python_of(directory).exists():  # also when it is a link to a Python that is gone
        return None
    try:
        mark = json.loads((directory / MARK).read_text())
        return dict(mark["installed"]) if mark["identity"] == identity(directory) else None
    except FileNotFoundError:
        # Somebody's own environment, or an interrupted installation: it is kept if it is of this Python.
        return {} if made_here_by_this_python(directory) else None
    except (ValueError, KeyError, TypeError):
        return None


def made_here_by_this_python(directory: Path) -> bool:
    check = "import pip, sys; print(sys.prefix, sys.implementation.name, '%d.%d' % sys.version_info[:2], sep='|')"
    answer = subprocess.run([python_of(directory), "-c", check], capture_output=True, text=True, check=False)
    activate = directory / "bin" / "activate"
    # The prefix follows a copy; the path that was written into `activate` does not.
    return answer.stdout.strip() == "|".join((str(directory), *python_version().split())) and (
        not activate.exists() or str(directory) in activate.read_text()
    )


def python_of(directory: Path) -> Path:
    return directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def create(directory: Path) -> None:
    say(f"Making {directory} with Python {sys.version.split()[0]}")
    # This may be running in the environment that has to go; the Python it was made from stays.
    base = getattr(sys, "_base_executable", None) or sys.executable
    if directory.is_symlink():
        directory.unlink()  # the link goes; what it pointed to is somebody else's
    if directory.exists():
        if not (directory / "pyvenv.cfg").exists() and any(directory.iterdir()):
            sys.exit(f"{directory} is in the way: it is no virtual environment. Move it and try again.")
        shutil.rmtree(directory)
    result = subprocess.run([base, "-m", "venv", directory], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return
    shutil.rmtree(directory, ignore_errors=True)  # what `venv` leaves behind when it has no `ensurepip`
    if subprocess.run([base, "-m", "virtualenv", "--quiet", directory], capture_output=True, check=False).returncode:
        minor = f"{sys.version_info.major}.{sys.version_info.minor}"
        sys.exit(
            f"{result.stdout}{result.stderr}\n"
            f"This Python cannot make virtual environments. On Debian and Ubuntu:\n"
            f"    sudo apt install python{minor}-venv\n"
            f"Elsewhere: {base} -m pip install --user virtualenv. Then try again."
        )


def install(directory: Path, missing: list[str]) -> None:
    # Without build isolation, what has to be built is built by what requirements/build.txt pins, not by the newest.
    pip: list[str | Path] = [python_of(directory), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    pip.append("--no-build-isolation")
    for name in missing:
        if name == "project":
            # On its own, because with hashes pip refuses a project that has none.
            say("Installing Holdfast from this directory")
            call([*pip, "--no-deps", "--editable", ROOT])
        else:
            say(f"Installing requirements/{name}.txt")
            call([*pip, "--require-hashes", "-r", ROOT / "requirements" / f"{name}.txt"])


def call(command: list[str | Path]) -> None:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if result.returncode:
        sys.exit(f"This failed: {' '.join(map(str, command))}")


def remember(directory: Path, installed: dict[str, str]) -> None:
    mark = {"identity": identity(directory), "installed": installed}
    (directory / MARK).write_text(json.dumps(mark, indent=1))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
