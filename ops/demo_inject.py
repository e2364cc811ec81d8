"""What goes wrong in a demo on purpose, so that a runbook can be followed, and who mends it?

It lasts as long as the file `trouble` is in the demo's folder: removing it is what mending is
elsewhere.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import boto3

from ops.demo_config import write_credentials
from ops.demo_runs import MARKER, SECOND, SEQUENCER, Injection
from ops.embedded import Weed


class _Play(NamedTuple):
    what: str
    runbook: str
    begin: Callable[[Weed, Path], object]
    mend: Callable[[Weed, Path], object]
    #: Not only once a first file is verified.
    at_once: bool = False


@dataclass(slots=True)
class Trouble:
    """One trouble of a demo whose S3 server and folder these are."""

    kind: Injection
    weed: Weed
    folder: Path
    _begun: bool = field(default=False, init=False)
    _mended: bool = field(default=False, init=False)

    @property
    def file(self) -> Path:
        """Return the file whose removal mends."""
        return self.folder / "trouble"

    @property
    def runbook(self) -> str:
        """Return the page that says what to do."""
        return f"docs/runbooks/{_PLAYS[self.kind].runbook}.md"

    def tend(self, *, verified: bool) -> str | None:
        """Begin when it is time, mend once that is asked; return what is to be said.

        Raises: ServiceFailed.
        """
        play = _PLAYS[self.kind]
        if not self._begun and (verified or play.at_once):
            self._begun = True
            self.file.touch()
            play.begin(self.weed, self.folder)
            return play.what
        if self._begun and not self._mended and not self.file.exists():
            self._mended = True
            play.mend(self.weed, self.folder)
            return "Mended."
        return None


def deny_puts(weed: Weed, prefix: str) -> None:
    """Deny writing below a prefix, '' for all of the bucket, by the bucket's policy."""
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": ["s3:PutObject"],
        "Resource": [f"arn:aws:s3:::{weed.bucket}/{prefix}*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    _client(weed).put_bucket_policy(Bucket=weed.bucket, Policy=policy)


def allow_puts(weed: Weed) -> None:
    """Deny nothing any more."""
    _client(weed).delete_bucket_policy(Bucket=weed.bucket)


def _turn_keys(weed: Weed, _folder: Path) -> None:
    weed.kill()
    weed.secret_key = secrets.token_hex(20)
    weed.start()


def _client(weed: Weed) -> Any:
    session = boto3.Session(weed.access_key, weed.secret_key, region_name="us-east-1")
    return session.client("s3", endpoint_url=weed.endpoint)


_PLAYS: Mapping[Injection, _Play] = {
    Injection.DENIED: _Play(
        f"The bucket's policy denies what lies below InterOp/ of {SECOND}.",
        "dead-letter",
        lambda weed, _: deny_puts(weed, f"raw/{SEQUENCER}/{SECOND}/InterOp/"),
        lambda weed, _: allow_puts(weed),
        at_once=True,
    ),
    Injection.EXPIRED: _Play(
        "The S3 server takes the workers' credentials no more.",
        "credentials-expired",
        _turn_keys,
        write_credentials,
    ),
    Injection.DOWN: _Play(
        "The S3 server is gone.",
        "endpoint-down",
        lambda weed, _: weed.kill(),
        lambda weed, _: weed.start(),
    ),
    Injection.STUCK: _Play(
        f"The sequencer stopped, and never writes {MARKER} of {SECOND}.",
        "run-stuck",
        lambda _, __: None,
        lambda _, folder: (folder / SEQUENCER / SECOND / MARKER).touch(),
        at_once=True,
    ),
}
