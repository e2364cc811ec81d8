"""Is a ledger that was lost made again from what is proven, with nothing sent or rewritten?"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import redis

from labferry.audit import Act, read_line
from labferry.completion import RunState, run_state
from labferry.dead_letter import find_letter
from labferry.editions import object_key
from labferry.records import Level, Note, Outcome, Proof, Step
from labferry.s3.checksum import crc64nvme
from labferry.settings import InstrumentSettings
from labferry.states import MOVE_OF, Actor, Event, State
from ops.drift import Comparison
from tests.dock import PROVEN, RUN, UNPROVEN, Meddling, fingerprint
from tests.faults import Answer, EditReply, rule
from tests.ledger_world import EVIDENCE, later_than
from tests.memory_store import Breaking, Died
from tests.quay import ABORT, COMPLETE, CREATE, PART, PART_PUT, PUT, Quay
from tests.waiting import eventually
from workers.complete import Completer
from workers.reasons import Reasons
from workers.rebuild import rebuild
from workers.rebuild_report import DONE, PARTIAL, UNAVAILABLE, Rebuilt, exit_code
from workers.rebuild_run import Site

ACT = Act(actor="ada@lab", reason="LIMS-7: the disk died", what="reconcile --rebuild")
WRITES = (PUT, PART_PUT, CREATE, COMPLETE, ABORT, "DeleteObject")
LARGE = os.urandom(PART + 1)
HOLDERS = [event for event, move in MOVE_OF.items() if move.actor is Actor.HOLDER]


def lose(quay: Quay) -> None:
    """Lose the ledger."""
    quay.dock._server.flushdb()
    quay.proxy.script()


def site(quay: Quay, **changes: Any) -> Site:
    dock = quay.dock
    settings = dock.settings.model_copy(
        update={"instruments": {RUN.instrument: InstrumentSettings(root=dock.root)}}
    )
    made = Site(
        ledger=dock.ledger,
        store=dock.store,
        layout=dock.layout,
        settings=settings,
        proof=PROVEN,
        holder=1,
        act=ACT,
        dry_run=False,
    )
    return replace(made, **changes)


def rebuilt(quay: Quay, **changes: Any) -> Rebuilt:
    (report,) = rebuild(site(quay, **changes), None)
    assert report.failure == ""
    return report


def written(quay: Quay) -> list[tuple[str, str]]:
    """What was written to the bucket since the ledger was lost."""
    return [(one.operation, one.key) for one in quay.proxy.log if one.operation in WRITES]


def complete(quay: Quay, *last: str) -> None:
    ledger = quay.dock.ledger
    ledger.seal(RUN, last, 0)
    assert Completer(
        ledger=ledger, store=quay.dock.store, layout=quay.dock.layout, trusts_put=True
    ).complete(RUN)


def write_reasons(quay: Quay) -> None:
    dock = quay.dock
    Reasons(ledger=dock.ledger, store=dock.store, layout=dock.layout).write(RUN)


def told(quay: Quay) -> dict[str, Any]:
    """What the ledger says of the run, as far as it is a matter of fact."""
    ledger, facts = quay.dock.ledger, quay.dock.ledger.find_facts(RUN)
    assert facts is not None
    files = {
        path: (
            record.state,
            record.fingerprint[:3],
            record.evidence,
            object_key(ledger, quay.dock.layout, RUN.file(path), record),
        )
        for path, record in ledger.records(RUN)
    }
    return {
        "files": files,
        "counts": {state: count for state, count in facts.counts.items() if count},
        "sizes": {state: size for state, size in facts.sizes.items() if size},
        "state": run_state(facts),
        "generation": (facts.generation, facts.completed, facts.marker),
        "markers": ledger.markers(RUN),
        "closed": facts.closed and (facts.closed.actor, facts.closed.reason),
    }


def supersede(quay: Quay, name: str, body: bytes) -> None:
    """Let a verified file change, where it may, and send it."""
    dock = quay.dock
    path = dock.write(name, body)
    note = Note(event=Event.SUPERSEDE, kind="source", code="superseded", message="it changed")
    step = Step(path=name, fingerprint=fingerprint(path), note=note)
    dock.ledger.move(RUN, Event.SUPERSEDE, [step])
    dock.settle(name)
    dock.ferry()


def wrong(quay: Quay) -> bool:
    dock = quay.dock
    roots = {RUN.instrument: dock.root}
    one = Comparison(ledger=dock.ledger, store=dock.store, layout=dock.layout, roots=roots)
    return bool(one.look(RUN))


def test_a_run_half_done_goes_on_without_a_byte_sent_again(quay: Quay) -> None:
    for name in ("a", "d/ü%25", "empty", "large"):
        quay.write(name, {"large": LARGE, "empty": b""}.get(name, name.encode()))
    quay.ferry()
    before = told(quay)
    quay.dock.write("late", b"not sent yet")
    lose(quay)

    report = rebuilt(quay)
    assert (report.verified, report.generations, report.unproven.count) == (4, [], 0)
    assert written(quay) == []
    after = told(quay)
    assert after["files"] == before["files"]
    assert {one[2].level for one in after["files"].values()} == {Level.A}
    assert after["state"] is RunState.OPEN

    quay.dock.settle("late")
    quay.dock.ferry()
    complete(quay)
    key = quay.dock.key("late")
    assert [one for one in written(quay) if "/raw/" in one[1]] == [(PUT, key)]
    quay.verified("a", "d/ü%25", "empty", "large", "late")
    assert not wrong(quay)


def test_a_complete_run_is_on_record_again_as_it_was(quay: Quay) -> None:
    for name in ("a", "large"):
        quay.write(name, LARGE if name == "large" else b"a")
    quay.ferry()
    complete(quay)
    before, marker = told(quay), quay.dock.layout.marker(RUN, 1)
    stored = quay.direct.find_object(marker)
    lose(quay)

    report = rebuilt(quay)
    assert (report.verified, report.generations) == (2, [1])
    assert told(quay) == before
    assert written(quay) == []
    assert quay.direct.find_object(marker) == stored
    assert len(quay.dock.ledger.told(RUN)) == 1
    acts = [read_line(line).act for line in quay.dock.ledger.audit(RUN)]
    assert [(act.what, act.reason) for act in acts] == [(ACT.what, ACT.reason)]
    assert quay.dock.ledger.holds() == {}


def test_generations_and_editions_come_back_and_the_next_one_follows(quay: Quay) -> None:
    quay.write("a", b"first")
    quay.write("b", b"b")
    quay.ferry()
    complete(quay)
    supersede(quay, "a", b"second edition")
    complete(quay)
    quay.write("late", b"late")
    quay.ferry()
    complete(quay)
    supersede(quay, "a", b"third edition, in no manifest")
    before = told(quay)
    assert before["generation"][:2] == (4, 3)
    lose(quay)

    report = rebuilt(quay)
    assert report.generations == [1, 2, 3]
    after = told(quay)
    assert after == before
    assert written(quay) == []
    complete(quay)
    manifest = b"".join(quay.direct.read(quay.dock.layout.manifest(RUN, 4))).decode()
    assert quay.dock.layout.edition(RUN.file("a"), 2) in manifest  # it supersedes that one
    assert not wrong(quay)


def test_dead_letters_come_back_with_every_attempt(quay: Quay) -> None:
    dock = quay.dock
    dock.tune("retry", attempts=2)
    for name in ("good", "dead", "given up", "mended"):
        quay.write(name, name.encode())
    denied = [rule(Answer(503, "ServiceUnavailable"), on=PUT, key=f"*/{n}") for n in ("dead",)]
    denied += [
        rule(Answer(403, "AccessDenied"), on=PUT, key=f"*/{n}") for n in ("given up", "mended")
    ]
    quay.finish(*denied)
    step = Step(path="given up", note=_note(Event.DISCARD))
    dock.ledger.act(RUN, Event.DISCARD, [step], replace(ACT, actor="bob@lab", what="discard"))
    dock.ledger.act(RUN, Event.REPLAY, [Step(path="mended", note=_note(Event.REPLAY))], ACT)
    quay.finish()
    write_reasons(quay)
    before = {name: _letter(quay, name) for name in ("dead", "given up")}
    files = told(quay)["files"]
    documents = {name: _document(quay, name) for name in ("dead", "given up", "mended")}
    lose(quay)

    report = rebuilt(quay)
    assert (report.verified, report.letters, report.given_up) == (2, 1, 1)
    assert written(quay) == []
    after = told(quay)["files"]
    assert {path: one[0] for path, one in after.items()} == {
        path: one[0] for path, one in files.items()
    }
    assert _letter(quay, "dead") == before["dead"]
    (dead,) = dock.ledger.dead_files(RUN)
    assert dead.since_ms == before["dead"]["notes"][-1].at_ms
    assert _document(quay, "dead") == documents["dead"]
    kept = _letter(quay, "given up")
    assert kept["notes"][:-1] == before["given up"]["notes"][:-1]
    assert (kept["notes"][-1].event, kept["notes"][-1].worker) == (Event.DISCARD, "bob@lab")
    write_reasons(quay)  # of what was given up the bucket is told once more

    dock.ledger.act(RUN, Event.REPLAY, [Step(path="dead")], ACT)
    quay.finish()
    quay.verified("good", "dead", "mended")


def _note(event: Event) -> Note:
    return Note(event=event, kind="operator", code=event, message=ACT.reason, worker="bob@lab")


def _letter(quay: Quay, name: str) -> dict[str, Any]:
    file = RUN.file(name)
    record = quay.dock.record(name)
    letter = find_letter(file, record, quay.dock.ledger.history(file))
    assert letter is not None
    counters = (record.attempt, record.lost, record.rounds, record.series)
    # The document does not say how many of a letter's notes were an operator's own words.
    notes = [
        replace(note, code="", decision="") if _is_act(note) else note for note in letter.notes
    ]
    return {"at_ms": letter.at_ms, "counters": counters, "notes": notes, "code": letter.code}


def _is_act(note: Note) -> bool:
    return note.kind == "operator"


def _document(quay: Quay, name: str) -> bytes:
    return b"".join(quay.direct.read(quay.dock.layout.reason(RUN.file(name))))


@pytest.mark.parametrize("is_told", [True, False], ids=["documents", "manifest alone"])
def test_a_run_that_a_person_closed_is_closed_again(quay: Quay, is_told: bool) -> None:
    for name in ("good", "bad"):
        quay.write(name, name.encode())
    quay.finish(rule(Answer(403, "AccessDenied"), on=PUT, key="*/bad"))
    act = Act(actor="bob@lab", reason="never mind", what="close")
    quay.dock.ledger.act(RUN, Event.CLOSE, [Step(path="bad", note=_note(Event.CLOSE))], act)
    assert quay.dock.ledger.close(RUN, act)
    assert Completer(
        ledger=quay.dock.ledger, store=quay.dock.store, layout=quay.dock.layout
    ).complete(RUN)
    if is_told:
        write_reasons(quay)
    before, history = told(quay), quay.dock.codes("bad")
    assert before["state"] is RunState.CLOSED
    lose(quay)
    assert rebuilt(quay).given_up == 1
    assert told(quay) == before
    assert len(quay.dock.codes("bad")) == (len(history) if is_told else 1)
    assert written(quay) == []


@pytest.mark.parametrize("is_there", [True, False], ids=["source", "no source"])
def test_what_a_manifest_names_and_the_bucket_lost_is_a_dead_letter(
    quay: Quay, is_there: bool
) -> None:
    for name in ("gone", "other", "good"):
        quay.write(name, name.encode())
    quay.ferry()
    complete(quay)
    for name in ("gone", "other"):
        quay.direct.delete(quay.dock.key(name))
    quay.direct.put_absent(quay.dock.key("other"), b"else!", crc64nvme(b"else!"), "another")
    if not is_there:
        for name in ("gone", "other", "good"):
            quay.dock.source(name).unlink()
    lose(quay)
    report = rebuilt(quay)
    assert (report.verified, sorted(report.lost.first)) == (1, ["gone", "other"])
    assert quay.dock.codes("gone") == [(Event.LOSE, "object_missing")]
    assert quay.dock.codes("other") == [(Event.LOSE, "object_replaced")]
    write_reasons(quay)
    assert b"object_missing" in _document(quay, "gone")


def test_what_the_source_contradicts_is_left_and_never_called_verified(quay: Quay) -> None:
    for name in ("changed", "short", "sourceless", "good"):
        quay.write(name, name.encode())
    quay.ferry()
    quay.dock.write("changed", b"CHANGED")
    quay.dock.write("short", b"")
    quay.dock.source("sourceless").unlink()
    lose(quay)
    report = rebuilt(quay)
    assert (report.verified, report.unproven.count) == (1, 3)
    assert set(dict(quay.dock.ledger.records(RUN))) == {"good"}


def test_where_the_share_is_not_on_this_host_manifests_are_enough_and_the_rest_is_said(
    quay: Quay,
) -> None:
    quay.write("a", b"a")
    quay.ferry()
    complete(quay)
    away = quay.dock.root.parent / "elsewhere"
    quay.dock.run.rename(away)
    lose(quay)
    report = rebuilt(quay)
    assert (report.verified, exit_code([report])) == (1, DONE)
    assert told(quay)["state"] is RunState.COMPLETE
    away.rename(quay.dock.run)
    quay.write("late", b"late")
    quay.ferry()
    quay.dock.run.rename(away)
    lose(quay)
    report = rebuilt(quay)
    assert (report.verified, exit_code([report])) == (1, UNAVAILABLE)
    away.rename(quay.dock.run)
    report = rebuilt(quay)
    assert (report.verified, report.known, exit_code([report])) == (1, 1, DONE)


def test_a_file_that_its_list_of_checksums_contradicts_is_left(quay: Quay) -> None:
    quay.write("f", b"bytes")
    quay.ferry()
    quay.dock.write("f.md5", b"0123456789abcdef0123456789abcdef  f\n")
    lose(quay)
    made = site(quay)
    sidecars = [{"file": "*.md5", "form": "checksums"}]
    instrument = InstrumentSettings(root=quay.dock.root, sidecars=sidecars)
    settings = made.settings.model_copy(update={"instruments": {RUN.instrument: instrument}})
    (report,) = rebuild(replace(made, settings=settings), None)
    assert (report.verified, report.unproven.count) == (0, 1)
    assert "md5" in report.unproven.first[0]


SHOWS_NOTHING = EditReply(headers={"x-amz-checksum-crc64nvme": None})


@pytest.mark.parametrize("is_complete", [True, False], ids=["manifest", "source"])
@pytest.mark.parametrize(
    ("proof", "hides"), [(UNPROVEN, False), (PROVEN, True)], ids=["unproven", "shows nothing"]
)
def test_what_no_server_attests_is_read_back_and_is_no_level_a(
    quay: Quay, proof: Proof, hides: bool, is_complete: bool
) -> None:
    quay.write("f", b"bytes")
    quay.ferry()
    if is_complete:
        complete(quay)
    lose(quay)
    quay.proxy.script(*([rule(SHOWS_NOTHING, on="HeadObject")] if hides else []))
    quay.dock.tune("store", evidence_minimum="D")
    assert rebuilt(quay, proof=proof).verified == 1
    evidence = quay.dock.record("f").evidence
    assert evidence is not None
    assert evidence.level is Level.D
    assert quay.proxy.count("GetObject", "*/raw/*") == 1


def test_below_the_minimum_nothing_is_called_verified(quay: Quay) -> None:
    quay.write("f", b"bytes")
    quay.ferry()
    complete(quay)
    lose(quay)
    quay.dock.tune("store", evidence_minimum="A")
    report = rebuilt(quay, proof=UNPROVEN)
    assert (report.verified, report.unproven.count) == (0, 1)


def test_agents_that_scan_meanwhile_do_no_harm(quay: Quay) -> None:
    for name in ("seen", "settled", "changed", "unseen"):
        quay.write(name, name.encode())
    quay.ferry()
    complete(quay)
    before = told(quay)
    lose(quay)
    dock = quay.dock
    dock.write("changed", b"something else")
    dock.ledger.discover(RUN, [("seen", fingerprint(dock.source("seen")))])
    dock.settle("settled", "changed")
    dock.write("new", b"new")
    dock.settle("new")
    assert rebuilt(quay).verified == 4
    after = told(quay)
    assert {path: after["files"][path][0] for path in before["files"]} == dict.fromkeys(
        before["files"], State.VERIFIED
    )
    assert after["files"]["changed"][1][:2] == before["files"]["changed"][1][:2]
    assert after["generation"][:2] == (2, 1)  # the new file is on its way
    assert {claim.path for claim in dock.claim()} == {"new"}


@pytest.mark.parametrize("held_before", [True, False])
def test_each_instrument_is_held_meanwhile_and_what_another_person_holds_stays_held(
    quay: Quay, held_before: bool
) -> None:
    """So that no worker sends what is about to be found."""
    quay.write("f", b"bytes")
    quay.ferry()
    lose(quay)
    ledger, seen = quay.dock.ledger, list[Any]()
    if held_before:
        ledger.hold(RUN.instrument, replace(ACT, actor="bob@lab", what="hold"))
    looking = Meddling(ledger, "claim", lambda: seen.append(ledger.find_hold(RUN)))
    assert rebuilt(quay, ledger=looking).verified == 1
    assert [word.actor for word in seen] == ["bob@lab" if held_before else ACT.actor]
    assert set(ledger.holds()) == ({RUN.instrument} if held_before else set())


def test_what_a_worker_holds_is_left_to_it(quay: Quay) -> None:
    quay.write("f", b"bytes")
    quay.ferry()
    lose(quay)
    quay.dock.settle("f")
    claims = quay.dock.claim()
    report = rebuilt(quay)
    assert (report.verified, report.known) == (0, 1)
    quay.dock.ferry(claims)
    quay.verified("f")


def test_a_worker_that_the_lost_ledger_knew_is_fenced_from_the_new_one(quay: Quay) -> None:
    """It was left running: one of its files is found in the bucket, one goes to another worker."""
    quay.write("sent", b"sent")
    quay.ferry()
    quay.write("not sent", b"not sent")
    ledger = quay.dock.ledger
    (old,) = quay.dock.claim()
    tokens = {"sent": quay.dock.record("sent").token, "not sent": old.token}
    lose(quay)

    def is_fenced() -> bool:
        held = list(tokens.items())
        steps = [Step(path=path, token=token, evidence=EVIDENCE) for path, token in held]
        refused = [
            not renewed and outcome in (Outcome.FENCED, Outcome.MISSING)
            for event in HOLDERS
            for renewed, outcome in zip(
                ledger.renew(RUN, held), ledger.move(RUN, event, steps), strict=True
            )
        ]
        return all(refused)

    assert is_fenced()
    eventually(lambda: ledger.now_ms() >= later_than(old.token))
    assert rebuilt(quay).verified == 1
    assert is_fenced()
    quay.dock.settle("not sent")
    newer = quay.dock.claim()
    assert is_fenced()
    quay.dock.ferry(newer)
    quay.verified("sent", "not sent")
    assert is_fenced()


def test_twice_is_as_once_and_a_healthy_ledger_is_left_as_it_is(quay: Quay) -> None:
    for name in ("a", "b"):
        quay.write(name, name.encode())
    quay.ferry()
    complete(quay)
    supersede(quay, "a", b"second")
    before = _everything(quay)
    assert not rebuilt(quay).changed
    assert _everything(quay) == before
    lose(quay)
    assert rebuilt(quay).verified == 4 - 1  # an edition, its successor, and the other file
    after = _everything(quay)
    report = rebuilt(quay)
    assert (report.changed, report.verified) == (False, 0)
    assert _everything(quay) == after


def _everything(quay: Quay) -> dict[str, Any]:
    """All that the ledger holds of the run, but for its place on the index of active runs."""
    server: redis.Redis = quay.dock._server
    keys = [key for key in server.scan_iter(f"labferry:{{{RUN}}}:*")]
    return {key.decode(): server.dump(key) for key in keys}


def test_a_dry_run_says_what_would_be_and_changes_nothing(quay: Quay) -> None:
    quay.write("a", b"a")
    quay.write("bad", b"bad")
    quay.finish(rule(Answer(403, "AccessDenied"), on=PUT, key="*/bad"))
    write_reasons(quay)
    lose(quay)
    report = rebuilt(quay, dry_run=True)
    assert (report.verified, report.letters) == (1, 1)
    assert quay.dock.ledger.runs() == []
    assert list(quay.dock._server.scan_iter("*")) == []
    assert written(quay) == []


def _killed_at(quay: Quay, nth: int, when: Literal["before", "after"]) -> bool:
    """Rebuild with a ledger that dies at its nth call; return whether it did."""
    dying = Breaking(quay.dock.ledger, nth, when)
    try:
        rebuild(site(quay, ledger=dying), None)
    except Died:
        return True
    return False


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_call_of_the_ledger_it_goes_on_where_it_was(
    quay: Quay, when: Literal["before", "after"]
) -> None:
    quay.dock.tune("retry", attempts=1)
    for name in ("a", "b", "dead"):
        quay.write(name, name.encode())
    quay.finish(rule(Answer(403, "AccessDenied"), on=PUT, key="*/dead"))
    write_reasons(quay)
    quay.dock.ledger.act(RUN, Event.REPLAY, [Step(path="dead")], ACT)
    quay.finish()
    complete(quay)
    supersede(quay, "a", b"second")
    before, nth = told(quay), 1
    lose(quay)
    while _killed_at(quay, nth, when):
        quay.dock.lapse()  # what it held is parked, as the sweep would do
        quay.dock.ledger.take_due(RUN, 100)
        rebuilt(quay)
        assert told(quay) == before, nth
        assert quay.dock.ledger.holds() == {}
        lose(quay)
        nth += 1
    assert nth > 15


@pytest.mark.parametrize("spoil", ["digest", "other run", "climbs", "level"])
def test_a_manifest_that_is_not_what_its_marker_says_is_not_believed(
    quay: Quay, spoil: str
) -> None:
    quay.write("f", b"bytes")
    quay.ferry()
    complete(quay)
    key = quay.dock.layout.manifest(RUN, 1)
    body = b"".join(quay.direct.read(key))
    changes: dict[str, Callable[[bytes], bytes]] = {
        "digest": lambda one: one.replace(b'"evidence":"A"', b'"evidence":"B"'),
        "other run": lambda one: one.replace(b'"run":"scope/', b'"run":"other/'),
        "climbs": lambda one: one.replace(b'"path":"f"', b'"path":"../../f"'),
        "level": lambda one: one.replace(b'"evidence":"A"', b'"evidence":"Z"'),
    }
    quay.direct.put_document(key, changes[spoil](body))
    if spoil != "digest":
        _resign(quay, key)
    lose(quay)
    (report,) = rebuild(site(quay), None)
    assert report.failure
    assert dict(quay.dock.ledger.records(RUN)) == {}


def _resign(quay: Quay, key: str) -> None:
    """Let the marker name the manifest as it is now."""
    marker = quay.dock.layout.marker(RUN, 1)
    fields = json.loads(b"".join(quay.direct.read(marker)))
    body = b"".join(quay.direct.read(key))
    fields["manifest_sha256"] = hashlib.sha256(body).hexdigest()
    quay.direct.put_document(marker, json.dumps(fields).encode())


def test_an_error_of_one_run_does_not_stop_the_others(quay: Quay, tmp_path: Path) -> None:
    quay.write("f", b"bytes")
    quay.ferry()
    bad = f"{quay.dock.layout.prefix}/runs/scope/bad/1/complete.json"
    quay.direct.put_document(bad, b"{}")
    lose(quay)
    reports = {report.run.run: report for report in rebuild(site(quay), None)}
    assert reports["bad"].failure
    assert reports[RUN.run].verified == 1


def test_documents_that_are_no_letters_of_the_run_are_named_and_not_believed(quay: Quay) -> None:
    quay.write("bad", b"bad")
    quay.write("good", b"good")
    quay.finish(rule(Answer(403, "AccessDenied"), on=PUT, key="*/bad"))
    write_reasons(quay)
    body, layout = _document(quay, "bad"), quay.dock.layout
    quay.direct.put_document(layout.reason(RUN.file("elsewhere")), body)
    quay.direct.put_document(layout.reason(RUN.file("garbage")), b'{"labferry_reason": 1}')
    quay.direct.put_document(
        layout.reason(RUN.file("climbs")), body.replace(b"/bad", b"/../../other/run/bad")
    )
    lose(quay)
    report = rebuilt(quay)
    assert (report.letters, report.verified, report.strange.count) == (1, 1, 3)
    assert set(dict(quay.dock.ledger.records(RUN))) == {"bad", "good"}
    assert exit_code([report]) == PARTIAL
