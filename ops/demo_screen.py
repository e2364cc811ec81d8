"""What does a person see of the demo? Bars on a terminal, plain lines elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.text import Text

from labferry.completion import run_state
from labferry.identity import RunKey
from labferry.manifest import Marker
from labferry.records import RunFacts
from ops.pace import Pace
from ops.run_view import progress_view, progress_words
from ops.shown import counted, size, terminal

#: Where nobody watches live, a run says something at most this often.
LINE_EVERY = 0.25
_LEVELS = {
    "A": "the server computed the same checksum of the whole object",
    "B": "the server checked every part, and their composite",
    "C": "the server checked the MD5",
    "D": "read back and compared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run as its marker in the bucket describes it."""

    run: RunKey
    bucket: str
    marker_key: str
    marker: Marker


class Screen:
    """Says what happens, in order."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._console = terminal()
        self._live: Live | None = None
        self._said: dict[RunKey, tuple[str, int]] = {}

    def begins(self, folder: Path) -> None:
        """Say where everything is."""
        self._print(Text("labferry demo", style="bold"))
        self._print("Everything runs on this machine, and is removed at the end.\n")
        self.started("folder", str(folder))

    def started(self, what: str, where: str) -> None:
        """Say that something runs."""
        self._print(f"  {what:<10} {where}")

    def watching(self, runs: Sequence[RunKey], *, being_written: bool) -> None:
        """Say what is to be seen now."""
        if being_written:
            self._print(
                f"\nInstruments are writing {len(runs)} runs now. What is at rest is ferried;\n"
                "a run is complete when its marker is written, after everything was proven.\n"
            )
        else:
            self._print(f"\nFerrying {runs[0]}; the folder itself is only read.\n")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show progress in this block."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def progress(self, runs: Sequence[RunKey], paces: Sequence[tuple[RunFacts, Pace]]) -> None:
        """Show how far each run is."""
        if self._live is None:
            for facts, pace in paces:
                self._say_change(facts, pace)
            return
        seen = {facts.run for facts, _ in paces}
        unseen = [Text(f"{run}\n  not seen yet", style="dim") for run in runs if run not in seen]
        self._live.update(Group(progress_view(paces), *unseen), refresh=True)

    def _say_change(self, facts: RunFacts, pace: Pace) -> None:
        state = run_state(facts)
        step = (str(state), int(pace.files_done / max(pace.files_total, 1) / LINE_EVERY))
        if self._said.get(facts.run) != step:
            self._said[facts.run] = step
            self._print(f"{facts.run}: {state}, {progress_words(facts, pace)}")

    def result(self, shown: Shown, read_back: str, left_out: Iterable[str]) -> None:
        """Say what is in the bucket of one run, and what is not."""
        marker = shown.marker
        levels = ", ".join(f"{level} ({_LEVELS[level]})" for level in sorted(marker.evidence))
        self._print(Text(f"\n{shown.run}", style="bold"))
        self._print(f"  verified   {counted(marker.files)}, {size(marker.size)}")
        self._print(f"  evidence   {levels}")
        self._print(f"  manifest   s3://{shown.bucket}/{marker.manifest}")
        self._print(f"  marker     s3://{shown.bucket}/{shown.marker_key}")
        self._print(f"  read back  {read_back}")
        for line in left_out:
            self._print(f"  left out   {line}")

    def stuck(self, lines: Iterable[str]) -> None:
        """Say what did not complete, and why."""
        self._print(Text("\nIt did not complete. What is known:", style="bold red"))
        for line in lines:
            self._print(f"  {line}")

    def trouble(self, said: str, runbook: str, file: Path, env: Path) -> None:
        """Say what goes wrong on purpose, and how to go on; nothing but that once it is mended."""
        self._print(Text(f"\n{said}", style="bold"))
        if file.exists():
            self._print(f"{runbook} says what to do. In another terminal:")
            self._print(f"  . {env}")
            self._print("  labferry status")
            self._print(f"  rm {file}    # this mends it\n")

    def kept(self, flower: str, env: Path) -> None:
        """Say what can be looked at until Ctrl-C."""
        self._print(f"\nFlower shows every task: {flower}")
        self._print("In another terminal:")
        self._print(f"  . {env}")
        self._print("  labferry status\n\nAll of it stays open until Ctrl-C.")

    def not_kept(self, flower: str) -> None:
        """Say what could have been looked at."""
        self._print(
            f"\nFlower showed every task at {flower}; `labferry demo --keep` keeps it open."
        )

    def put_away(self, word: str, now_s: float) -> None:
        """Say that everything is stopped and removed."""
        seconds = now_s - self._began_s
        self._print(
            f"\n{word} Everything was stopped and removed, {seconds:.0f} s after the start."
        )
        if word == "Done.":
            self._print("Next: labferry init")

    def _print(self, text: str | Text) -> None:
        # soft_wrap: a key must be copied whole, and a log must not be cut to 80 columns
        self._console.print(text, soft_wrap=True)
