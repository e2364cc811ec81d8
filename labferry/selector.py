"""Which dead letters does an operator mean? One selector for list, preview and act.

Everything that is named must hold. Nothing named is refused where something is to be changed:
"all" is said, never meant by silence.
"""

import re
from dataclasses import dataclass

from labferry.dead_letter import DeadLetter
from labferry.errors import BadName, SettingsError
from labferry.identity import FileKey, RunKey
from labferry.measures import find_age_s, find_bytes
from labferry.outbox import Waiting

_FINGERPRINT = re.compile(r"[0-9a-f]{1,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """What is asked of a dead letter; None or False asks nothing.

    With a `sink`, events that could not be delivered to it are meant, and no files.
    """

    run: RunKey | None = None
    instrument: str | None = None
    code: str | None = None
    fingerprint: str | None = None
    file: FileKey | None = None
    older_than_s: float | None = None
    larger_than_bytes: int | None = None
    all: bool = False
    sink: str | None = None

    def require(self) -> None:
        """Refuse a selector that names nothing. Raises: SettingsError."""
        if self == Selector():
            raise SettingsError(
                field="selector",
                why="nothing is chosen",
                step="Name --run, --instrument, --code, --fingerprint, --file, --older-than, "
                "--larger-than or --sink, which must all hold, or say --all.",
            )

    def may_be_in(self, run: RunKey) -> bool:
        """Whether a dead letter of this run can be meant."""
        return (
            self.run in (None, run)
            and self.instrument in (None, run.instrument)
            and (self.file is None or self.file.run == run)
        )

    def means_delivery(self, waiting: Waiting, now_ms: int) -> bool:
        """Whether this delivery that a person is to decide on is meant."""
        age_s = (now_ms - waiting.delivery.first_ms) / 1000
        return (
            self.may_be_in(waiting.run)
            and self.sink in (None, waiting.sink, "all")
            and (self.file, self.fingerprint, self.larger_than_bytes) == (None, None, None)
            and self.code in (None, waiting.delivery.code)
            and (self.older_than_s is None or age_s > self.older_than_s)
        )

    def matches(self, letter: DeadLetter, now_ms: int) -> bool:
        """Whether this dead letter is meant, now on the ledger's clock."""
        age_s = (now_ms - letter.at_ms) / 1000
        size = letter.record.fingerprint.size
        return (
            self.sink is None
            and self.may_be_in(letter.file.run)
            and self.file in (None, letter.file)
            and self.code in (None, letter.code)
            and (self.older_than_s is None or age_s > self.older_than_s)
            and (self.larger_than_bytes is None or size > self.larger_than_bytes)
            and (self.fingerprint is None or letter.fingerprint.startswith(self.fingerprint))
        )

    def __str__(self) -> str:
        """Return it as it is typed; `parse` reads the parts."""
        ages, sizes = self.older_than_s, self.larger_than_bytes
        named = {
            "--run": self.run,
            "--instrument": self.instrument,
            "--code": self.code,
            "--fingerprint": self.fingerprint,
            "--file": self.file,
            "--older-than": None if ages is None else f"{ages:g}s",
            "--larger-than": None if sizes is None else f"{sizes}B",
            "--sink": self.sink,
        }
        words = [f"{option} {value}" for option, value in named.items() if value is not None]
        return " ".join([*words, "--all"] if self.all else words)


def read_selector(  # noqa: PLR0913  one a word of the command line
    *,
    run: str | None = None,
    instrument: str | None = None,
    code: str | None = None,
    fingerprint: str | None = None,
    file: str | None = None,
    older_than: str | None = None,
    larger_than: str | None = None,
    all: bool = False,
    sink: str | None = None,
) -> Selector:
    """Read what was typed. Raises: SettingsError, which names the option."""
    if fingerprint is not None and not _FINGERPRINT.fullmatch(fingerprint):
        raise _fault("--fingerprint", fingerprint, "Write it as `labferry dead-letters list` does.")
    return Selector(
        run=None if run is None else _read_run(run),
        instrument=instrument,
        code=code,
        fingerprint=fingerprint,
        file=None if file is None else _read_file(file),
        older_than_s=None if older_than is None else _read_age_s(older_than),
        larger_than_bytes=None if larger_than is None else _read_bytes(larger_than),
        all=all,
        sink=sink,
    )


def _read_run(text: str) -> RunKey:
    try:
        return RunKey.parse(text.removesuffix("/"))
    except BadName as error:
        raise _fault("--run", text, "Write INSTRUMENT/RUN.") from error


def _read_file(text: str) -> FileKey:
    instrument, _, rest = text.partition("/")
    run, _, path = rest.partition("/")
    if not (instrument and run and path):
        raise _fault("--file", text, "Write INSTRUMENT/RUN/PATH.")
    # Not parsed: a name that no key can hold is just what may be a dead letter.
    return FileKey(RunKey(instrument, run), path)


def _read_age_s(text: str) -> float:
    age_s = find_age_s(text)
    if age_s is None:
        raise _fault("--older-than", text, "Write a number and s, m, h, d or w, such as 2h or 3d.")
    return age_s


def _read_bytes(text: str) -> int:
    size = find_bytes(text)
    if size is None:
        raise _fault("--larger-than", text, "Write a number and B, KB, MB, GB or TB, such as 10GB.")
    return size


def _fault(option: str, text: str, step: str) -> SettingsError:
    return SettingsError(field=option, why=f"{text!r} cannot be read", step=step)
