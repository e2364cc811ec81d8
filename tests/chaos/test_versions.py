"""Do hosts of two versions work side by side, and is what one cannot read refused and not lost?

The newer version is made up: `sitecustomize` changes, in its processes alone, what it writes.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from labferry.identity import RunKey
from labferry.ledger.keys import PASSES
from labferry.ledger.server import FORMAT_KEY
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey
from ops.loopback import free_ports
from tests.services import LEDGER_DATABASE
from tests.site import Changes, Site, open_site
from tests.waiting import PATIENCE_S

FIRST, SECOND = RunKey("scope", "run 1"), RunKey("scope", "run 2")
FILES = 12
REFUSED = 4

#: More fields in every record and message, under the same numbers.
MORE_FIELDS = """
import labferry.versioned as versioned
write = versioned.write_versioned
versioned.write_versioned = lambda number, record: write(number, {**record, "newer": [1]})
import labferry.ledger.notes as notes
note = notes.fields_of
notes.fields_of = lambda one: {**note(one), "newer": [1]}
import labferry.messages as messages
upload, run = messages.UploadMessage.to_payload, messages.run_payload
messages.UploadMessage.to_payload = lambda self: {**upload(self), "newer": [1]}
messages.run_payload = lambda key: {**run(key), "newer": [1]}
"""

#: Messages under the next number; those before it are still read.
NEXT_NUMBER = """
import labferry.messages as messages
read, messages.VERSION = messages.read_run, 2
def read_run(task, payload):
    return read(task, {**payload, "version": 2} if payload["version"] == 1 else payload)
messages.read_run = read_run
"""


@pytest.fixture
def site(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Site]:
    (port,) = free_ports(1)
    changes: Changes = {
        "ledger": {"resend_s": 1, "sweep_interval_s": 0.2},
        "monitor": {"port": port},
    }
    with open_site(
        tmp_path, valkey, store_settings, {"scope": tmp_path / "share"}, changes
    ) as opened:
        (tmp_path / "share").mkdir()
        write_run(opened, FIRST)
        yield opened


def write_run(site: Site, run: RunKey) -> None:
    folder = site.roots["scope"] / run.run
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.txt").write_bytes(b"x" * number)


def start_newer(site: Site, code: str, *command: str) -> None:
    """Start a program of a newer version."""
    folder = site.folder / "newer"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code)
    site.start(*command, PYTHONPATH=str(folder))


def is_complete(site: Site, run: RunKey) -> bool:
    facts = site.ledger.find_facts(run)
    return facts is not None and facts.is_over


def whole(site: Site, run: RunKey) -> None:
    """Demand each file verified once, with nothing held against it, and one marker."""
    site.until(lambda: is_complete(site, run), f"{run} complete")
    records = dict(site.ledger.records(run))
    assert len(records) == FILES
    assert {one.state for one in records.values()} == {State.VERIFIED}
    assert sum(one.attempt + one.lost for one in records.values()) == 0
    assert site.ledger.markers(run) == {1}


def test_two_versions_side_by_side_tolerate_what_either_adds(site: Site) -> None:
    start_newer(site, MORE_FIELDS, "agent")
    start_newer(site, MORE_FIELDS, "sweep")
    present = site.start("worker", "--lane", "small", "--no-sweep")
    whole(site, FIRST)
    passes = site.ledger._server.client.hvals(PASSES)
    assert passes and all(b'"newer"' in one for one in passes), "the newer one writes more"
    start_newer(site, MORE_FIELDS, "worker", "--lane", "small", "--no-sweep")
    site.start("sweep")
    write_run(site, SECOND)
    whole(site, SECOND)
    present.send_signal(signal.SIGTERM)
    assert present.wait(PATIENCE_S) == 0
    assert site.ledger.dead_messages() == []


def test_a_message_of_the_next_number_is_refused_and_its_files_wait_for_a_newer_worker(
    site: Site,
) -> None:
    start_newer(site, NEXT_NUMBER, "agent")
    start_newer(site, NEXT_NUMBER, "sweep")
    present = site.start("worker", "--lane", "small", "--no-sweep")
    site.until(lambda: len(site.ledger.dead_messages()) > 0, "a message refused")
    kept = json.loads(site.ledger.dead_messages()[0])
    assert kept["payload"]["version"] == 2
    assert "its version is 2, and this worker reads 1" in kept["why"]

    def states() -> list[State]:
        return [one.state for _, one in site.ledger.records(FIRST)]

    site.until(lambda: states() == [State.ELIGIBLE] * FILES, "refused, and not lost")
    start_newer(site, NEXT_NUMBER, "worker", "--lane", "small", "--no-sweep")
    present.send_signal(signal.SIGTERM)
    assert present.wait(PATIENCE_S) == 0
    whole(site, FIRST)


def test_no_program_starts_on_a_ledger_of_another_format(site: Site, valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url(LEDGER_DATABASE)) as client:
        client.set(FORMAT_KEY, "2")
        for command in ("worker", "agent", "sweep", "monitor"):
            done = site.run(command)
            assert done.returncode == REFUSED, done.stderr
            assert "records are of format 2" in done.stderr
            assert "Use the version that wrote them, on all hosts" in done.stderr
        assert client.keys() == [FORMAT_KEY.encode()]
