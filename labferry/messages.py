"""What crosses the broker? Task names, queue names, payloads.

A message is a disposable wake-up. It carries keys, never credentials or paths of a host; whoever
gets it asks the ledger. Payloads are JSON with a version.
"""

import json
import re
import reprlib
from dataclasses import dataclass
from hashlib import blake2b

from labferry.errors import BadName, MalformedMessage
from labferry.identity import MAX_KEY_BYTES, RunKey, check_path
from labferry.records import Bundle, Lane

VERSION = 1

#: Few names, so that Flower's and Prometheus's task label stays small.
UPLOAD = "labferry.upload"
COMPLETE = "labferry.complete"
REASONS = "labferry.reasons"
PUT_AWAY = "labferry.put_away"
TAKE_BACK = "labferry.take_back"

CONTROL_QUEUE = "labferry.control"

#: Characters of a task id; a longer one ends in its digest. Flower has it in its addresses.
MAX_TASK_ID = 512
_DIGEST_BYTES = 16
#: The most that `bundle_max_files` can be set to.
MAX_PATHS = 5000
#: Characters that are kept of a message nobody can handle; such are never trimmed.
_MOST_KEPT = 10_000


def upload_queue(instrument: str, lane: Lane) -> str:
    """Return the queue of one instrument's lane."""
    return f"upload.{instrument}.{lane}"


def task_id(bundle: Bundle) -> str:
    """Return the id under which Flower shows a bundle; retries of a file keep it."""
    if len(bundle.paths) == 1:
        name = f"{bundle.run}/{bundle.paths[0]}~{bundle.series}"
    else:
        name = f"{bundle.run}~bundle-{bundle.number}"
    # Flower's own buttons do not encode an id: `?`, `#` and `%` break them.
    name = re.sub(r"[^A-Za-z0-9._/~-]", lambda m: "".join(f"={b:02X}" for b in m[0].encode()), name)
    if len(name) <= MAX_TASK_ID:
        return name
    digest = blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{name[: MAX_TASK_ID - len(digest) - 1]}~{digest}"


def describe(bundle: Bundle) -> str:
    """Return the arguments as Flower shows them: the readable path."""
    first = f"{bundle.run}/{bundle.paths[0]}"
    others = len(bundle.paths) - 1
    return f"{first} and {others} more" if others else first


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadMessage:
    """The wake-up for one bundle."""

    run: RunKey
    bundle: int
    paths: tuple[str, ...]

    def to_payload(self) -> dict[str, object]:
        """Return the JSON object."""
        return {
            "version": VERSION,
            "run": str(self.run),
            "bundle": self.bundle,
            "paths": list(self.paths),
        }

    @classmethod
    def from_payload(cls, payload: object) -> "UploadMessage":
        """Read a payload; unknown extra fields are tolerated. Raises: MalformedMessage."""
        run = read_run(UPLOAD, payload)
        assert isinstance(payload, dict)  # noqa: S101  read_run has seen it
        bundle, paths = payload.get("bundle"), payload.get("paths")
        if not isinstance(bundle, int) or isinstance(bundle, bool):
            raise MalformedMessage(what=UPLOAD, why="'bundle' is not a number")
        if not isinstance(paths, list) or not all(isinstance(p, str) for p in paths) or not paths:
            raise MalformedMessage(what=UPLOAD, why="'paths' is not a list of texts")
        if len(paths) > MAX_PATHS or max(map(len, paths)) > MAX_KEY_BYTES:
            raise MalformedMessage(what=UPLOAD, why="'paths' are more or longer than any bundle's")
        try:
            for path in paths:
                check_path(path)
        except BadName as error:
            raise MalformedMessage(what=UPLOAD, why=str(error)) from error
        return cls(run=run, bundle=bundle, paths=tuple(paths))


def run_payload(run: RunKey) -> dict[str, object]:
    """Return the JSON object of a wake-up about a run."""
    return {"version": VERSION, "run": str(run)}


def read_run(task: str, payload: object) -> RunKey:
    """Read the run that a task's payload is about. Raises: MalformedMessage."""
    if not isinstance(payload, dict):
        raise MalformedMessage(what=task, why="the payload is not an object")
    if payload.get("version") != VERSION:
        version = reprlib.repr(payload.get("version"))
        why = (
            f"its version is {version}, and this worker reads {VERSION}: another labferry sent it. "
            "Its files are not lost and come again, for a worker of that version"
        )
        raise MalformedMessage(what=task, why=why)
    run = payload.get("run")
    if not isinstance(run, str) or len(run) > MAX_KEY_BYTES:
        raise MalformedMessage(what=task, why="'run' is not a text, or too long for one")
    try:
        return RunKey.parse(run)
    except BadName as error:
        raise MalformedMessage(what=task, why=str(error)) from error


def buried(task: str, payload: object, why: str) -> str:
    """Return what is kept of a message that nobody can handle: of a large one its beginning."""
    kept: dict[str, object] = {"task": task, "payload": payload, "why": why}
    text = json.dumps(kept, default=str, ensure_ascii=False)
    if len(text) > _MOST_KEPT:
        kept |= {"payload": json.dumps(payload, default=str)[:_MOST_KEPT], "cut_from": len(text)}
        text = json.dumps(kept, ensure_ascii=False)
    return text
