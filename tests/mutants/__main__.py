"""``python -m tests.mutants``: apply each mutant to a copy of the checkout and see which test fails.

The named tests of a mutant run first. Only if all of them pass, the rest of the suite runs. Exit code 1: a mutant
survived, no longer applies, or a named test fails without any mutant.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant, read_catalogue, stale

CAUGHT = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - |$)", re.MULTILINE)
LEFT_OUT = (".git", ".venv", ".presence", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis")
# Pytest plugins that named tests may need. The others, above all schemathesis, take three times as long as a test.
PLUGINS = ("-p", "pytest_timeout", "-p", "tests.mutants.first_backend")
NAMED_SECONDS = 300
SUITE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one mutant."""

    mutant: Mutant
    outcome: str  #: "caught", "survived" or "broken"
    by: str  #: the test that failed first, or the error
    seconds: float
    is_quick: bool = True  #: by its named tests

    def __str__(self) -> str:
        how = self.outcome if self.is_quick else f"{self.outcome} (suite)"
        return f"{how:8} {self.seconds:6.1f} s  {self.mutant.name}  <- {self.by}"


class Checkout:
    """A copy of the checkout, which one worker changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copytree(ROOT, path, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if (ROOT / ".venv").exists():
            (path / ".venv").symlink_to((ROOT / ".venv").resolve())

    def write(self, file: str, text: str) -> None:
        """Write a file, and remove its bytecode: a change within the same second may keep time and size."""
        path = self.path / file
        path.write_text(text, "utf-8")
        if path.suffix == ".py":
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def named(self, *words: str, seconds: float) -> tuple[int, str]:
        """Run named tests, each on the first of its backends. A hanging test fails after a minute."""
        return self.pytest(
            *PLUGINS, "--timeout=60", *words, seconds=seconds, environ={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        )

    def pytest(self, *words: str, seconds: float, environ: dict[str, str] | None = None) -> tuple[int, str]:
        """Exit code and output of a run of pytest in this copy."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "--no-header", "-p", "no:cacheprovider",
                   "--ignore=tests/mutants", *words]  # fmt: skip
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRESENCE_")}
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                command,
                cwd=self.path,
                env=inherited | (environ or {}),
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.terminate()  # pytest stops the servers that it started
                process.wait(60)
                code = 1
                out.write(f"FAILED (no end within {seconds:.0f} s)\n".encode())
            out.seek(0)
            return code, out.read().decode("utf-8", "replace")


def run_mutant(checkout: Checkout, mutant: Mutant, *, named_only: bool) -> Result:
    """Apply one mutant, run its tests and, if they pass, the rest of the suite."""
    before = (checkout.path / mutant.file).read_text("utf-8")
    begin = time.monotonic()
    try:
        checkout.write(mutant.file, mutant.applied(before))
        code, out = checkout.named("-x", *mutant.tests, seconds=NAMED_SECONDS)
        is_quick = True
        if code == 0 and not named_only:
            is_quick = False
            code, out = checkout.pytest("-x", "-n", "2", "--dist", "loadfile", seconds=SUITE_SECONDS)
    finally:
        checkout.write(mutant.file, before)
    taken = time.monotonic() - begin
    if code == 0:
        return Result(mutant, "survived", "no test failed", taken, is_quick)
    failed = CAUGHT.search(out)
    if code not in (1, 2) or failed is None:  # 2: a test module could not be imported
        return Result(mutant, "broken", f"pytest ended with {code}: {out.strip()[-400:]}", taken, is_quick)
    return Result(mutant, "caught", failed[1], taken, is_quick)


def run_control(checkout: Checkout, mutants: Sequence[Mutant]) -> bool:
    """Whether all named tests pass without a mutant."""
    begin = time.monotonic()
    nodes = list(dict.fromkeys(node for mutant in mutants for node in mutant.tests))
    code, out = checkout.named(*nodes, seconds=SUITE_SECONDS)
    print(f"control  {time.monotonic() - begin:6.1f} s  {len(nodes)} named tests without a mutant: exit code {code}")
    if code != 0:
        print(out[-3000:])
    return code == 0


def run_all(mutants: Sequence[Mutant], workers: int, *, named_only: bool, control: bool) -> list[Result]:
    """Run all mutants, each pytest worker in a copy of its own; prints a line for each."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        free: queue.SimpleQueue[Checkout] = queue.SimpleQueue()
        for number in range(workers):
            free.put(Checkout(Path(directory) / str(number)))
        if control:
            checkout = free.get()
            if not run_control(checkout, mutants):
                return []
            free.put(checkout)
        results: list[Result] = []
        printing = threading.Lock()

        def work(mutant: Mutant) -> None:
            checkout = free.get()
            try:
                result = run_mutant(checkout, mutant, named_only=named_only)
            finally:
                free.put(checkout)
            with printing:
                results.append(result)
                print(f"{len(results):3}/{len(mutants)} {result}", flush=True)

        with ThreadPoolExecutor(workers) as pool:
            try:
                for done in [pool.submit(work, mutant) for mutant in mutants]:
                    done.result()
            except BaseException:  # Ctrl-C
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("-k", default="", metavar="TEXT", help="only mutants with this text in 'domain: name file'")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="how many at a time (1)")
    parser.add_argument("--list", action="store_true", help="only their names")
    parser.add_argument("--check", action="store_true", help="only see whether all of them still apply")
    parser.add_argument("--named-only", action="store_true", help="never run the rest of the suite")
    parser.add_argument("--no-control", action="store_true", help="do not first run the named tests without a mutant")
    args = parser.parse_args()
    wanted = args.k.lower()
    mutants = [
        mutant for mutant in read_catalogue() if wanted in f"{mutant.domain}: {mutant.name} {mutant.file}".lower()
    ]
    if args.list:
        print(*(f"{mutant.domain}: {mutant.name}" for mutant in mutants), sep="\n")
        return 0
    if problems := stale(mutants):
        print("Re-anchor these:", *problems, sep="\n")
        return 1
    if args.check:
        print(f"{len(mutants)} mutants apply.")
        return 0
    begin = time.monotonic()
    results = run_all(mutants, args.j, named_only=args.named_only, control=not args.no_control)
    missed = [result for result in results if result.outcome != "caught"]
    print(f"{len(results) - len(missed)} of {len(mutants)} mutants caught in {time.monotonic() - begin:.0f} s")
    print(*missed, sep="\n")
    return 1 if missed or len(results) < len(mutants) or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
