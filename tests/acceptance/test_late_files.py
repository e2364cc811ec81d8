"""What comes, or changes, after a run was complete: new generations, by real processes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labferry.identity import RunKey
from labferry.ledger.keys import ACTIVE
from labferry.manifest import Entry, Marker, read_entry, read_header, read_marker
from labferry.records import RunFacts
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey
from tests.site import Changes, Site, open_site

LATE = RunKey("scope", "session")
NESTED = RunKey.below("ont", ["exp 1", "sample#1", "20240101_1200_1A_PAO12345_0a1b2c3d"])


@pytest.fixture
def site(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    ledger_url: str,
    broker_url: str,
) -> Iterator[Site]:
    roots = {"scope": tmp_path / "scope", "ont": tmp_path / "ont"}
    for root in roots.values():
        root.mkdir()
    changes: Changes = {
        "ledger": {"keep_records_s": 0.5},
        "instruments.scope": {"profile": "generic"},
        "instruments.ont": {"profile": "ont-minknow"},
    }
    with open_site(tmp_path, valkey, store_settings, roots, changes) as opened:
        opened.config.write_text(
            opened.config.read_text("utf-8").replace(
                "[instruments.scope]", '[instruments.scope]\nchanging = ["*.dm"]'
            ),
            "utf-8",
        )
        opened.start("worker")
        opened.start("agent")
        yield opened


def write(site: Site, run: RunKey, path: str, content: bytes) -> Path:
    file = site.roots[run.instrument].joinpath(*run.folders) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def complete(site: Site, run: RunKey, generation: int) -> None:
    site.until(lambda: generation in site.ledger.markers(run), f"generation {generation} complete")


def generation(site: Site, run: RunKey, number: int) -> tuple[Marker, dict[str, Entry]]:
    client: Any = site.client()
    marker = read_marker(site.body(client, site.layout.marker(run, number)))
    head, *lines = site.body(client, marker.manifest).splitlines()
    assert read_header(head) == (run, number)
    return marker, {entry.path: entry for entry in map(read_entry, lines)}


def verified(site: Site, run: RunKey) -> dict[str, Any]:
    ended = site.run("verify", str(run), "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts: dict[str, Any] = json.loads(ended.stdout)
    return facts


def waits_for(site: Site) -> list[str]:
    """What `labferry status` says that the nested run waits for; its share is looked at."""
    shown = json.loads(site.run("status", "--json").stdout)
    (instrument,) = [one for one in shown["instruments"] if one["instrument"] == "ont"]
    assert (instrument["watch"], instrument["profile"]) == ("watched", "ont-minknow")
    (run,) = [one for one in shown["runs"] if one["run"] == str(NESTED)]
    lacking: list[str] = run.get("waits_for", [])
    return lacking


def test_a_late_file_and_a_changed_one_are_the_next_generation_and_the_first_stays(
    site: Site,
) -> None:
    session = write(site, LATE, "EpuSession.dm", b"first")
    write(site, LATE, "a/movie.tiff", b"movie")
    complete(site, LATE, 1)
    client = site.client()
    raw = site.layout.raw(LATE.file("EpuSession.dm"))
    first_marker = site.body(client, site.layout.marker(LATE, 1))
    for number, content in ((2, b"second, longer"), (3, b"third")):
        session.write_bytes(content)
        write(site, LATE, f"a/late-{number}.tiff", b"late")
        complete(site, LATE, number)
    second, entries = generation(site, LATE, 2)
    assert set(entries) == {"EpuSession.dm", "a/late-2.tiff"}
    assert entries["EpuSession.dm"].supersedes == raw
    assert entries["a/late-2.tiff"].supersedes == ""
    assert (second.files, second.superseded, second.total_files) == (2, 1, 3)
    third = generation(site, LATE, 3)[1]["EpuSession.dm"]
    assert third.supersedes == entries["EpuSession.dm"].key
    assert len({raw, entries["EpuSession.dm"].key, third.key}) == 3
    # Every edition is kept, and the first marker is untouched.
    keys = (raw, entries["EpuSession.dm"].key, third.key)
    assert [site.body(client, key) for key in keys] == [b"first", b"second, longer", b"third"]
    assert site.body(client, site.layout.marker(LATE, 1)) == first_marker
    facts = verified(site, LATE)
    assert facts["generations"] == [1, 2, 3]
    assert facts["files"] == 6
    assert facts["unexpected_count"] == 0
    assert "run.unexpected_objects" not in site.report()


def test_a_change_that_the_profile_does_not_expect_is_a_dead_letter_and_nothing_is_overwritten(
    site: Site,
) -> None:
    raw = write(site, LATE, "QC.raw", b"first")
    complete(site, LATE, 1)
    raw.write_bytes(b"acquired again, longer")
    site.until(
        lambda: site.ledger.find_record(LATE.file("QC.raw")).state is State.QUARANTINED,  # type: ignore[union-attr]
        "the changed file a dead letter",
    )
    assert site.body(site.client(), site.layout.raw(LATE.file("QC.raw"))) == b"first"
    assert site.ledger.markers(LATE) == {1}


def test_a_run_that_lies_three_folders_deep_is_ferried_and_verified(site: Site) -> None:
    for number in range(3):
        write(site, NESTED, f"pod5_pass/{number}.pod5", b"x" * number)
    summary = b"pod5_files_in_final_dest=4\npod5_files_in_fallback=0\n"
    write(site, NESTED, "final_summary_PAO12345_0a1b2c3d_00000000.txt", summary)
    site.until(lambda: site.verified(NESTED) == 3, "the reads verified")
    # As many files as the summary states must be there, and status says so.
    lacks = "counts: pod5_files_in_final_dest=4, there are 3"
    site.until(lambda: any(one.startswith(lacks) for one in waits_for(site)), lacks)
    assert not site.ledger.markers(NESTED)
    write(site, NESTED, "pod5_pass/3.pod5", b"last")
    complete(site, NESTED, 1)
    assert set(generation(site, NESTED, 1)[1]) == {
        *(f"pod5_pass/{number}.pod5" for number in range(4)),
        "final_summary_PAO12345_0a1b2c3d_00000000.txt",
    }
    assert verified(site, NESTED)["verdict"] == "complete"


def test_a_late_file_of_a_run_whose_records_were_put_away_is_the_next_generation(
    site: Site,
) -> None:
    write(site, LATE, "a/movie.tiff", b"movie")
    complete(site, LATE, 1)
    site.until(lambda: facts_of(site).sight != "", "the complete run looked over")
    # As if the last of it moved a minute ago: then the sweep lets go of it.
    site.until(lambda: retired(site), "the records put away")
    assert dict(site.ledger.records(LATE)) == {}
    told = site.run("explain", f"{LATE}/a/movie.tiff", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["state"] == "verified"
    assert verified(site, LATE)["files"] == 1

    write(site, LATE, "a/late.tiff", b"late")
    complete(site, LATE, 2)
    second, entries = generation(site, LATE, 2)
    assert set(entries) == {"a/late.tiff"}
    assert second.total_files == 2


def facts_of(site: Site) -> RunFacts:
    facts = site.ledger.find_facts(LATE)
    assert facts is not None
    return facts


def retired(site: Site) -> bool:
    client = site.ledger._server.client
    client.zadd(ACTIVE, {str(LATE): 0}, xx=True)
    return facts_of(site).archive is not None
