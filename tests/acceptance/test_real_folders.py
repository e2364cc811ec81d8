"""Folders of a dozen instruments become completed runs, by real processes on real servers.

The genuine folders of ../shared/data are used where they lie beside the project; synthetic look-
alikes with the same difficulties (names, zero bytes, nesting, sizes) are always ferried too.
"""

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labferry.identity import decode_path
from labferry.manifest import read_entry, read_header, read_marker
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey
from tests.site import Site, open_site

GENUINE = Path(__file__).parents[2].parent / "shared" / "data"


def lay_out(target: Path) -> dict[str, Path]:
    """Copy every instrument's folders below the target; return the roots by instrument.

    A file directly under an instrument's folder is put into a run folder of its own.
    """
    roots = {"synthetic": target / "synthetic", "synthetic-2": target / "synthetic-2"}
    for root in roots.values():
        synthetic_run(root / "20260101 run #1+ä")
        synthetic_run(root / "20260102_run")
    folders = [one for one in sorted(GENUINE.glob("*")) if one.is_dir() and one.name != "LICENSES"]
    for folder in folders:
        root = roots[folder.name] = target / folder.name
        for item in sorted(folder.iterdir()):
            if item.is_dir():
                shutil.copytree(item, root / item.name, copy_function=shutil.copyfile)
            else:
                (root / item.stem).mkdir(parents=True)
                shutil.copyfile(item, root / item.stem / item.name)
    return roots


def synthetic_run(folder: Path) -> None:
    """Write a run with what has broken other tools."""
    (folder / "Data" / "L001" / "C1.1").mkdir(parents=True)
    (folder / "empty.txt").write_bytes(b"")
    (folder / "17550_2#5_phix.bam").write_bytes(os.urandom(3000))
    (folder / "a+b c%20d.txt").write_bytes(b"plus, space, percent")
    (folder / "größe (1).csv").write_bytes(b"umlaut")
    (folder / os.fsdecode(b"latin-\xe9.txt")).write_bytes(b"not UTF-8")
    (folder / "new\nline\\back.txt").write_bytes(b"control")
    (folder / "Data" / "large.raw").write_bytes(os.urandom(12 * 1024 * 1024))
    for number in range(150):
        tile = folder / "Data" / "L001" / "C1.1" / f"s_1_{number}.bcl"
        tile.write_bytes(number.to_bytes(2) * number)


def files_below(folder: Path) -> dict[bytes, bytes]:
    """Return the content of every file by its path's bytes."""
    return {
        os.fsencode(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def check_run(site: Site, root: Path, name: str) -> None:
    """Compare one run in the bucket with its folder, byte by byte."""
    [run] = [
        one for one in site.ledger.runs() if one.run == name and site.roots[one.instrument] == root
    ]
    client = site.client()
    markers = [key for key in site.objects(site.layout.runs_prefix(run)) if key.endswith(".json")]
    assert markers == [site.layout.marker(run, 1)]
    marker = read_marker(site.body(client, markers[0]))
    manifest = site.body(client, marker.manifest)
    assert hashlib.sha256(manifest).hexdigest() == marker.sha256
    head, *lines = manifest.splitlines()
    assert read_header(head) == (run, 1)
    entries = {decode_path(entry.path): entry for entry in map(read_entry, lines)}
    source = files_below(root / os.fsdecode(decode_path(name)))
    assert set(entries) == set(source)
    assert {entry.key for entry in entries.values()} == set(
        site.objects(site.layout.raw_prefix(run))
    )
    with ThreadPoolExecutor(8) as pool:
        bodies = pool.map(lambda path: site.body(client, entries[path].key), source)
    for path, body in zip(source, bodies, strict=True):
        assert body == source[path], path
    assert site.ledger.markers(run) == {1}


@pytest.mark.parametrize(("agents", "workers"), [(1, 1), (2, 3)])
def test_every_folder_becomes_a_run_with_one_marker_though_the_broker_is_flushed(
    tmp_path: Path,
    valkey: Valkey,
    store_settings: StoreSettings,
    agents: int,
    workers: int,
    ledger_url: str,
    broker_url: str,
) -> None:
    roots = lay_out(tmp_path / "shares")
    store = store_settings.model_copy(
        update={"single_put_max_bytes": 1024 * 1024, "part_size_bytes": 5 * 1024 * 1024}
    )
    names = {(one, run.name) for one, root in roots.items() for run in root.iterdir()}
    with open_site(tmp_path, valkey, store, roots) as site:
        for _ in range(workers):
            site.start("worker")
        for _ in range(agents):
            site.start("agent")
        site.until(lambda: verified(site) > 100, "a first hundred files verified")
        site.broker.flushdb()
        site.until(
            lambda: len(site.ledger.runs()) == len(names) and site.complete(),
            "every run complete",
        )
        for root in roots.values():
            for run in site.ledger.runs():
                if site.roots[run.instrument] == root:
                    check_run(site, root, run.run)
        nothing_more_happens(site)


def verified(site: Site) -> int:
    """Return how many files are verified."""
    facts = [site.ledger.find_facts(run) for run in site.ledger.runs()]
    return sum(one.counts[State.VERIFIED] for one in facts if one)


def nothing_more_happens(site: Site) -> None:
    """A second scan uploads nothing and writes nothing."""
    site.stop()
    before = site.objects(site.layout.prefix)
    site.broker.flushdb()
    scan = site.run("scan", "--json")
    assert scan.returncode == 0, scan.stderr
    assert json.loads(scan.stdout)
    for run in site.ledger.runs():
        facts = site.ledger.find_facts(run)
        assert facts is not None
        assert facts.generation == facts.completed == 1
        assert {state for state, count in facts.counts.items() if count} == {State.VERIFIED}
        assert (facts.sent, sum(facts.ready.values())) == (0, 0)
    assert site.broker.keys("upload.*") == []
    assert site.objects(site.layout.prefix) == before
