"""What does a look at a run cost whose files are all known, and one that was put away?"""

from dataclasses import replace

from benchmarks.at_rest import LAYOUT, AtRest, at_rest, timed
from benchmarks.job import Job
from benchmarks.ledgered import RUN
from benchmarks.processes import Cost, tree_cpu_s
from labferry.compaction import Records
from labferry.manifest import Marker, marker_bytes
from labferry.s3.checksum import crc64nvme
from labferry.s3.store import S3Store, open_store

LOOKS = 5


def measure_rescan(job: Job) -> Cost:
    """Return what one look of an agent takes, its ledger's part included.

    Peak memory is that of `labferry scan`, whose start is not in the times. An upload cannot be:
    nobody serves the endpoint.
    """
    with at_rest(job) as site:
        site.command("scan")
        site.finish()
        site.scan()
        command = site.command("scan")
        commands, before = site.run.commands(), tree_cpu_s([site.run.valkey.pid])
        wall_s, own_cpu_s = timed(site.scan)
        cpu_s = own_cpu_s + tree_cpu_s([site.run.valkey.pid]) - before
        calls = site.run.commands() - commands
    count = len(job.point.sizes)
    figures = {
        "known_files_per_s": count / wall_s,
        "known_files_per_cpu_s": count / cpu_s,
        "calls_per_1000_files": 1000 * calls / count,
        "command_s": command.wall_s,
    }
    return Cost(wall_s=wall_s, cpu_s=cpu_s, peak_rss_bytes=command.peak_rss_bytes, figures=figures)


def measure_finished(job: Job) -> Cost:
    """Return what a run takes once it is over, on record and put away; times are CPU alone.

    The cost is that of the first scan, its start included.
    """
    with at_rest(job) as site:
        first = site.command("scan")
        store = open_store(site.settings.store)
        site.finish()
        _put_documents(store, len(job.point.sizes))
        site.scan()
        on_record = {"record_bytes": _used(site), "record_scan_cpu_s": _best(site)}
        away = _put_away(site, store)
    return replace(first, figures={**on_record, **away})


def _put_away(site: AtRest, store: S3Store) -> dict[str, float]:
    records = Records(ledger=site.ledger, store=store, layout=LAYOUT)
    _, put_away_s = timed(lambda: records.put_away(RUN, keep_ms=0))
    facts = site.ledger.find_facts(RUN)
    assert facts is not None and facts.archive is not None
    archived = store.find_object(facts.archive.key)
    figures = {
        "away_bytes": _used(site),
        "away_scan_cpu_s": _best(site),
        "archive_bytes": archived.size if archived else 0,
        "put_away_cpu_s": put_away_s,
    }
    _, take_back_s = timed(lambda: records.take_back(RUN))
    return {**figures, "take_back_cpu_s": take_back_s}


def _put_documents(store: S3Store, count: int) -> None:
    """Put what stands for manifest and marker; a run without them is not put away."""
    marker = Marker(
        run=RUN, generation=1, manifest=LAYOUT.manifest(RUN, 1), sha256="", files=count, size=0,
        total_files=count, evidence={"A": count},
    )  # fmt: skip
    for key in (marker.manifest, LAYOUT.marker(RUN, 1)):
        body = marker_bytes(marker)
        store.put_absent(key, body, crc64nvme(body), "bench")


def _used(site: AtRest) -> float:
    client = site.run.client
    keys = client.scan_iter(f"*{{{RUN}}}*", count=1000)
    return float(sum(client.memory_usage(key, samples=0) for key in keys))


def _best(site: AtRest) -> float:
    return min(timed(site.scan)[1] for _ in range(LOOKS))
