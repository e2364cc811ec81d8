"""Dead letters are sent in again: real processes, a bucket that refuses until it is mended."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.audit import find_fault, read_line
from labferry.batch import Stage
from labferry.messages import upload_queue
from labferry.records import Lane
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey
from tests.replay_site import REASON, RUN, Refused, refused_site
from tests.waiting import PATIENCE_S

COUNT, FEW = 200, 40
QUEUE = upload_queue(RUN.instrument, Lane.SMALL)


@pytest.fixture
def refused(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Refused]:
    with refused_site(tmp_path, valkey, store_settings, COUNT) as site:
        yield site


@pytest.fixture
def few(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Refused]:
    with refused_site(tmp_path, valkey, store_settings, FEW) as site:
        yield site


def test_once_the_cause_is_mended_all_are_verified_and_both_series_are_on_record(
    refused: Refused,
) -> None:
    refused.mend()
    before = {file: refused.history(file) for file in refused.bad}
    command = ("dead-letters", "requeue", "--code", "AccessDenied", *REASON)

    code, shown = refused.facts(*command, "--dry-run")
    assert code == 0
    assert {item["prediction"] for item in shown["items"]} == {"would upload"}
    assert refused.series() == {0: COUNT}

    assert refused.labferry(*command).returncode == 4
    assert refused.series() == {0: COUNT}
    code, batch = refused.facts(*command, "--yes")

    assert (code, refused.outcomes(batch)) == (0, {"verified": COUNT})
    assert refused.states() == {State.VERIFIED: COUNT}
    first = refused.replays(refused.bad[0])[0].at_ms
    assert all(refused.replays(file)[0].at_ms > first for file in refused.bad[1:])
    for file in refused.bad:
        history = refused.history(file)
        assert history[: len(before[file])] == before[file]
        assert {note.series for note in history} == {0, 1}
        assert refused.puts(file) == 1
    lines = list(refused.site.ledger.audit(RUN))
    assert find_fault(lines, refused.site.ledger.audit_head(RUN)) is None
    acts = [read_line(line) for line in lines]
    assert sum(len(act.files) for act in acts) == COUNT
    assert {act.act.reason for act in acts} == {REASON[1]}
    assert all(f"batch {batch['batch']}" in act.act.selector for act in acts)
    refused.site.until(refused.site.complete, "the run complete")


def test_a_cause_that_is_not_mended_costs_one_file(refused: Refused) -> None:
    before = {file: refused.history(file) for file in refused.bad}
    code, batch = refused.facts("dead-letters", "requeue", "--run", str(RUN), *REASON, "--yes")

    assert (code, refused.outcomes(batch)) == (1, {"failed": 1, "left": COUNT - 1})
    assert batch["causes"][0]["stopped"] == "AccessDenied came back"
    assert refused.states() == {State.QUARANTINED: COUNT}
    touched = [file for file in refused.bad if refused.history(file) != before[file]]
    assert len(touched) == 1
    assert refused.series() == {0: COUNT - 1, 1: 1}
    listed = refused.labferry("replay", "--list")
    assert "AccessDenied came back" in " ".join(listed.stdout.split())


def test_a_batch_is_cancelled_from_another_terminal(few: Refused) -> None:
    few.mend()
    # So slow that most are left when the other command has started.
    command = ("replay", "--all", *REASON, "--yes", "--detach", "--pace", "1", "--json")
    begun = few.labferry(*command)
    assert begun.returncode == 0, begun.stderr
    batch = json.loads(begun.stdout)["batch"]
    few.site.until(lambda: few.states()[State.VERIFIED] >= 2, "two verified")

    cancelled = few.labferry("replay", "--cancel", batch, "--reason", "wrong run")
    assert cancelled.returncode == 0, cancelled.stderr

    code, ended = few.facts("replay", "--watch", batch)
    outcomes = few.outcomes(ended)
    assert code == 3
    assert outcomes["verified"] + outcomes["left"] == FEW
    assert outcomes["left"] > 0
    assert few.series() == {0: outcomes["left"], 1: outcomes["verified"]}
    assert "wrong run" in ended["condition"]
    again = few.labferry("replay", "--cancel", batch, "--reason", "twice")
    assert again.returncode == 4
    whats = [read_line(line).act.what for line in few.site.ledger.audit(None)]
    assert whats == [f"replay: batch {batch} of {FEW} files", f"cancel batch {batch}"]


def test_what_changed_is_there_already_or_is_gone_is_foreseen(few: Refused) -> None:
    few.mend()
    changed, same, other, gone, *_ = few.bad
    folder = few.site.roots["scope"] / RUN.run
    (folder / changed.path).write_text("the instrument wrote on")
    client, bucket = few.site.client(), few.site.store_settings.bucket
    body = (folder / same.path).read_bytes()
    for file, content in ((same, body), (other, body[::-1])):
        key = few.site.layout.raw(file)
        client.put_object(Bucket=bucket, Key=key, Body=content, ChecksumAlgorithm="CRC64NVME")
    (folder / gone.path).unlink()
    few.proxy.script()

    _, shown = few.facts("replay", "--all", *REASON, "--dry-run")
    found = {item["file"]: item for item in shown["items"]}
    assert (found[str(changed)]["prediction"], found[str(changed)]["source_changed"]) == (
        "would upload",
        True,
    )
    assert found[str(same)]["prediction"] == "no-op"
    assert found[str(other)]["prediction"] == "would fail again"
    assert found[str(gone)]["prediction"] == "would fail again"

    code, batch = few.facts("replay", "--all", *REASON, "--yes")
    assert code == 3
    assert few.outcomes(batch) == {"verified": FEW - 2, "left": 2}
    assert few.record(changed).fingerprint.size == len("the instrument wrote on")
    assert few.replays(changed)[0].event is Event.REVISE
    assert few.record(other).series == few.record(gone).series == 0
    assert few.site.body(client, few.site.layout.raw(other)) == body[::-1]


def test_a_verified_file_is_a_no_op_on_record_and_is_not_sent(few: Refused) -> None:
    good = RUN.file("good.txt")
    before = few.record(good)
    few.mend()
    code, batch = few.facts("replay", "--file", str(good), *REASON, "--yes")
    assert (code, few.outcomes(batch)) == (0, {"no-op": 1})
    assert batch["items"][0]["why"] == "it is verified"
    assert few.record(good) == before
    assert few.puts(good) == 0
    [started] = [read_line(line) for line in few.site.ledger.audit(None)]
    assert started.act.what == f"replay: batch {batch['batch']} of 1 file"


def test_what_was_deleted_after_its_run_was_complete_is_sent_again(few: Refused) -> None:
    few.mend()
    assert few.facts("dead-letters", "requeue", "--all", *REASON, "--yes")[0] == 0
    few.site.until(lambda: 1 in few.site.ledger.markers(RUN), "the run complete")
    one, sourceless, *_ = few.bad
    folder = few.site.roots["scope"] / RUN.run
    content = (folder / one.path).read_bytes()
    (folder / sourceless.path).unlink()
    client, bucket = few.site.client(), few.site.store_settings.bucket
    for file in (one, sourceless):
        client.delete_object(Bucket=bucket, Key=few.site.layout.raw(file))
    replay = ("replay", "--run", str(RUN), *REASON)

    code, shown = few.facts(*replay, "--dry-run")
    items = {item["file"]: item for item in shown["items"]}
    assert (code, set(items)) == (0, {str(one), str(sourceless)})
    assert items[str(one)]["prediction"] == "would upload"
    assert "its object is gone" in items[str(one)]["why"]
    assert items[str(sourceless)]["prediction"] == "would fail again"
    assert few.states() == {State.VERIFIED: FEW}, "a look changes nothing"

    code, batch = few.facts(*replay, "--yes")
    assert (code, few.outcomes(batch)) == (3, {"verified": 1, "left": 1})
    assert few.site.body(client, few.site.layout.raw(one)) == content
    letter = few.history(sourceless)[-1]
    assert (few.record(sourceless).state, letter.code) == (State.QUARANTINED, "object_missing")
    assert few.site.ledger.markers(RUN) == {1}, "a file is lost: no second marker"

    assert few.labferry("close", str(RUN), *REASON, "--yes").returncode == 0
    few.site.until(lambda: 2 in few.site.ledger.markers(RUN), "the next generation")
    found = few.site.run("verify", str(RUN)).stdout
    missing = [line for line in found.splitlines() if line.split()[0] == "missing"]
    assert len(missing) == 1, "the first manifest named both"
    assert missing[0].endswith(few.site.layout.raw(sourceless))


def test_two_batches_over_the_same_files_send_each_once(few: Refused) -> None:
    few.mend()
    command = ("dead-letters", "requeue", "--all", *REASON, "--yes", "--json")
    both = [few.site.start(*command) for _ in range(2)]
    codes = [process.wait(PATIENCE_S) for process in both]
    logs = sorted(few.site.folder.glob("*-dead-letters.log"))
    batches = [json.loads(log.read_text().splitlines()[-1]) for log in logs]
    assert codes == [0, 0]
    counts = few.outcomes(batches[0]) + few.outcomes(batches[1])
    assert counts.total() == 2 * FEW
    assert set(counts) == {"verified", "no-op"}
    for file in few.bad:
        assert len(few.replays(file)) == 1
        assert few.puts(file) == 1


def test_a_batch_goes_on_when_everything_is_killed_in_its_midst(few: Refused) -> None:
    hold = few.mend_in_part()
    watcher = few.site.start("replay", "--all", *REASON, "--yes", "--pace", "4")
    few.site.until(lambda: few.states()[State.VERIFIED] >= 5, "five verified")
    for process in few.site.processes:
        os.killpg(process.pid, signal.SIGKILL)
    watcher.wait(PATIENCE_S)
    assert few.states()[State.VERIFIED] < FEW

    hold.open()
    few.site.start("worker")

    def is_verified() -> bool:
        few.site.lapse()
        return few.states()[State.VERIFIED] == FEW

    few.site.until(is_verified, "all verified all the same")
    few.site.until(lambda: not few.site.ledger.open_batches(), "the batch ended")
    [batch] = few.site.ledger.batches()
    assert batch.counts[Stage.VERIFIED] == FEW
    assert all(len(few.replays(file)) == 1 for file in few.bad)


def test_ctrl_c_ends_the_report_and_not_the_batch(few: Refused) -> None:
    hold = few.mend_in_part()
    watcher = few.site.start("replay", "--all", *REASON, "--yes", "--pace", "4")
    few.site.until(lambda: few.states()[State.VERIFIED] >= 5, "five verified")
    os.killpg(watcher.pid, signal.SIGINT)
    assert watcher.wait(PATIENCE_S) == 130
    [log] = few.site.folder.glob("*-replay.log")
    assert "goes on" in log.read_text()
    hold.open()
    few.site.until(lambda: few.states()[State.VERIFIED] == FEW, "all verified")


# -- the broker is flushed between two steps


def requeue_and_lose_the_messages(few: Refused) -> tuple[int, Counter[str]]:
    """Send all in again, flush the broker when no worker has taken them; return what became of it.

    The worker was killed before, so that what is published is only in the broker.
    """
    _, worker = few.site.processes
    os.killpg(worker.pid, signal.SIGKILL)
    begun = few.labferry("dead-letters", "requeue", "--all", *REASON, "--yes", "--detach", "--json")
    assert begun.returncode == 0, begun.stderr
    few.site.start("sweep")
    few.site.until(lambda: few.site.broker.llen(QUEUE) > 0, "the first of them published")
    few.site.broker.flushdb()
    few.site.start("worker")
    code, batch = few.facts("replay", "--watch", json.loads(begun.stdout)["batch"])
    return code, few.outcomes(batch)


def test_a_broker_that_is_flushed_before_a_requeue_changes_nothing(few: Refused) -> None:
    few.mend()
    few.site.broker.flushdb()
    code, batch = few.facts("dead-letters", "requeue", "--all", *REASON, "--yes")
    assert (code, few.outcomes(batch)) == (0, {"verified": FEW})


def test_a_broker_that_is_flushed_between_requeue_and_verification_changes_nothing(
    few: Refused,
) -> None:
    few.mend()
    assert requeue_and_lose_the_messages(few) == (0, {"verified": FEW})
    assert few.states() == {State.VERIFIED: FEW}
    assert {few.puts(file) for file in few.bad} == {1}
    few.site.until(few.site.complete, "the run complete")


def test_a_broker_that_is_flushed_between_requeue_and_discard_changes_nothing(
    few: Refused,
) -> None:
    assert requeue_and_lose_the_messages(few) == (1, {"failed": 1, "left": FEW - 1})
    code, _ = few.facts("dead-letters", "discard", "--all", *REASON, "--yes")
    assert (code, few.states()) == (0, {State.DISCARDED: FEW})
    assert {few.history(file)[-1].event for file in few.bad} == {Event.DISCARD}
    assert {few.puts(file) for file in few.bad} == {0}
