"""Is what `labferry verify` reports true, also of a bucket or a server that lies?"""

import errno
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labferry.clock import SystemClock
from labferry.errors import BadListing, NotFound, SettingsError, StoreError
from labferry.identity import RunKey
from labferry.manifest import Gap
from labferry.ports import Clock, ObjectStore
from labferry.source.claims import RunReader
from labferry.stored import Listed
from ops.patience import OverBudget, Patience
from ops.verify import Verification
from ops.verify_report import Basis, Report, Verdict
from ops.written import written
from tests.bucket_by_hand import BODIES, LAYOUT, RUN, complete_bucket
from tests.manual_clock import ManualClock
from tests.memory_store import MemoryStore, StoredBody
from tests.waiting import PATIENCE_S

A_KEY = LAYOUT.raw(RUN.file("a.txt"))


def look(
    store: ObjectStore,
    *,
    clock: Clock | None = None,
    budget_s: float = 600,
    deep: bool = False,
    root: Path | None = None,
) -> Report:
    return Verification(
        store=store,
        layout=LAYOUT,
        run=RUN,
        clock=clock or ManualClock(),
        budget_s=budget_s,
        deep=deep,
        root=root,
    ).report()


class Failing(MemoryStore):
    """Lists and reads as `inner` does, but for the first calls, which fail with these errors."""

    def __init__(self, inner: MemoryStore, *errors: StoreError, method: str = "read") -> None:
        super().__init__()
        self.objects = inner.objects
        self.errors = list(errors)
        self.method = method

    def read(self, key: str, version_id: str = "") -> Iterable[bytes]:
        yield from super().read(key, version_id)
        self._fail("read", key)

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        yield from super().list_objects(prefix)
        self._fail("list", prefix)

    def _fail(self, method: str, key: str) -> None:
        if self.errors and method == self.method:
            raise self.errors.pop(0)


def unavailable(**facts: Any) -> StoreError:
    return StoreError(operation="GetObject", key="k", code="SlowDown", status=503, **facts)


def test_a_whole_run_is_complete_on_the_word_of_its_marker() -> None:
    report = look(complete_bucket())
    assert (report.verdict, report.basis, report.exit_code) == (Verdict.COMPLETE, Basis.MARKER, 0)
    assert (report.files, report.size, report.generations) == (3, 9, (1,))


def test_every_generation_is_compared() -> None:
    store = complete_bucket({"late": b"x"}, generation=2, store=complete_bucket())
    assert look(store).files == 4
    del store.objects[A_KEY]
    assert look(store).differences.missing == [A_KEY]


@pytest.mark.parametrize("method", ["missing", "different"])
def test_what_is_missing_or_different_is_named_by_its_identity(method: str) -> None:
    store = complete_bucket()
    if method == "missing":
        # one is gone and another came: the count is the same
        store.objects[LAYOUT.raw(RUN.file("other"))] = store.objects.pop(A_KEY)
    else:
        store.objects[A_KEY] = StoredBody(b"aleph", "other", "t")
    report = look(store)
    assert (report.verdict, report.exit_code) == (Verdict.PARTIAL, 3)
    assert getattr(report.differences, method) == [A_KEY]


def test_a_manifest_without_a_marker_is_enough_and_said_to_be_weaker() -> None:
    store = complete_bucket()
    del store.objects[LAYOUT.marker(RUN, 1)]
    report = look(store)
    assert (report.verdict, report.basis) == (Verdict.COMPLETE, Basis.MANIFEST)
    assert "no marker vouches for it" in report.why
    del store.objects[A_KEY]
    assert look(store).verdict is Verdict.PARTIAL


def test_without_a_manifest_there_is_a_count_and_the_verdict_is_unknown() -> None:
    store = complete_bucket()
    for key in (LAYOUT.marker(RUN, 1), LAYOUT.manifest(RUN, 1)):
        del store.objects[key]
    report = look(store)
    assert (report.verdict, report.basis) == (Verdict.UNKNOWN, Basis.COUNT)
    assert (report.files, report.size, report.exit_code) == (3, 9, 75)
    assert "weaker" in report.why


def test_a_marker_whose_manifest_is_gone_or_another_is_partial() -> None:
    gone, other = complete_bucket(), complete_bucket()
    del gone.objects[LAYOUT.manifest(RUN, 1)]
    other.objects[LAYOUT.manifest(RUN, 1)] = StoredBody(b"{}\n", "e", "t")
    for store in (gone, other):
        report = look(store)
        assert report.verdict is Verdict.PARTIAL
        assert "manifest.jsonl" in report.why


def test_a_run_that_was_closed_is_partial() -> None:
    gap = Gap(files=2, size=9, actor="ada@lab", reason="the disk died")
    report = look(complete_bucket(gap=gap))
    assert (report.verdict, report.gap) == (Verdict.PARTIAL, gap)


def test_nothing_at_all_is_not_found() -> None:
    with pytest.raises(NotFound):
        look(MemoryStore())


# -- deep


def test_deep_reads_back_and_finds_what_a_listing_cannot_show() -> None:
    store = complete_bucket()
    kept = store.objects[A_KEY]
    store.objects[A_KEY] = StoredBody(b"aleph", kept.etag, "t")
    assert look(store).verdict is Verdict.COMPLETE
    report = look(store, deep=True)
    assert (report.verdict, report.differences.different) == (Verdict.PARTIAL, [A_KEY])
    assert (report.read_files, report.read_size) == (3, 9)


def test_deep_says_how_much_of_a_whole_run_was_read() -> None:
    report = look(complete_bucket(), deep=True)
    assert (report.verdict, report.read_files) == (Verdict.COMPLETE, 3)


# -- the source


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The instrument's root, with the run as it was when it was proven."""
    for path, body in BODIES.items():
        file = tmp_path / "root" / RUN.run / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    return tmp_path / "root"


def edit(file: Path) -> None:
    """Change a byte, leave the size and put the time back."""
    before = file.stat()
    body = file.read_bytes()
    file.write_bytes(body[:-1] + b"X")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_deep_reads_the_source_too(root: Path) -> None:
    report = look(complete_bucket(), deep=True, root=root)
    assert report.source
    assert (report.verdict, report.exit_code) == (Verdict.COMPLETE, 0)
    assert (report.source.files, report.source.size, report.source.unseen) == (3, 9, "")
    assert look(complete_bucket(), root=root).source is None, "not asked for"


def test_an_edit_that_left_the_size_and_put_the_time_back_is_found(root: Path) -> None:
    edit(root / RUN.run / "a.txt")
    report = look(complete_bucket(), deep=True, root=root)
    assert report.source
    assert report.source.different.first == ["a.txt"]
    assert (report.verdict, report.differences.whole) == (Verdict.COMPLETE, True)
    assert report.exit_code == 3
    assert "at the source 1 different" in report.why


def test_a_source_that_grew_differs(root: Path) -> None:
    (root / RUN.run / "a.txt").write_bytes(BODIES["a.txt"] + b"!" * 3_000_000)
    report = look(complete_bucket(), deep=True, root=root)
    assert report.source
    assert report.source.different.first == ["a.txt"]
    assert report.source.size < 3_000_000, "no more is read than shows it"


def test_what_vanished_at_the_source_is_named_and_no_fault(root: Path) -> None:
    (root / RUN.run / "d/b c.txt").unlink()
    report = look(complete_bucket(), deep=True, root=root)
    assert report.source
    assert (report.source.vanished.first, report.exit_code) == (["d/b c.txt"], 0)
    assert "1 not there any more" in report.why


def test_a_source_that_cannot_be_read_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = RunReader.open

    def denied(reader: RunReader, path: str) -> Any:
        if path == "a.txt":
            raise PermissionError(errno.EACCES, "no")
        return opened(reader, path)

    monkeypatch.setattr(RunReader, "open", denied)
    report = look(complete_bucket(), deep=True, root=root)
    assert report.source
    assert report.source.unread.first == ["a.txt (EACCES)"]
    assert (report.verdict, report.exit_code) == (Verdict.COMPLETE, 3)


def test_of_a_file_with_two_editions_the_newest_is_the_source(root: Path) -> None:
    store = complete_bucket()
    key = LAYOUT.edition(RUN.file("a.txt"), 2)
    complete_bucket({"a.txt": b"other"}, generation=2, store=store, keys={"a.txt": key})
    (root / RUN.run / "a.txt").write_bytes(b"other")
    report = look(store, deep=True, root=root)
    assert report.source
    assert (report.source.files, report.exit_code) == (3, 0), report.why
    (root / RUN.run / "a.txt").write_bytes(BODIES["a.txt"])
    report = look(store, deep=True, root=root)
    assert report.source
    assert report.source.different.first == ["a.txt"]


@pytest.mark.parametrize("case", ["no settings", "no root", "empty root", "cleaned up"])
def test_without_a_source_the_bucket_alone_is_verified_and_that_is_said(
    root: Path, case: str
) -> None:
    if case != "no settings":
        shutil.rmtree(root / RUN.run if case != "no root" else root)
    if case == "cleaned up":
        (root / "another run").mkdir()
    report = look(complete_bucket(), deep=True, root=None if case == "no settings" else root)
    assert report.source
    assert (report.verdict, report.exit_code, report.read_files) == (Verdict.COMPLETE, 0, 3)
    assert "the source was not looked at" in report.why
    assert report.to_json()["source"] is not None


def test_a_share_that_goes_away_meanwhile_says_nothing_of_its_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = RunReader.open

    def gone(reader: RunReader, path: str) -> Any:
        shutil.rmtree(root)
        monkeypatch.setattr(RunReader, "open", opened)
        return opened(reader, path)

    monkeypatch.setattr(RunReader, "open", gone)
    report = look(complete_bucket(), deep=True, root=root)
    assert report.source
    assert "went away meanwhile" in report.source.unseen
    assert report.exit_code == 0


def test_reading_the_source_is_within_the_one_deadline(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, opened = ManualClock(), RunReader.open

    def slow(reader: RunReader, path: str) -> Any:
        clock.now_s += 25
        return opened(reader, path)

    edit(root / RUN.run / "a.txt")
    monkeypatch.setattr(RunReader, "open", slow)
    report = look(complete_bucket(), deep=True, root=root, clock=clock, budget_s=40)
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 75)
    assert report.source
    assert report.source.different.first == ["a.txt"], "what was found by then is told"


# -- one deadline


@pytest.mark.parametrize("method", ["read", "list"])
def test_what_can_heal_is_tried_again_and_nothing_is_counted_twice(method: str) -> None:
    store = Failing(complete_bucket(), unavailable(), unavailable(), method=method)
    report = look(store, deep=True)
    assert (report.verdict, report.files, report.read_files) == (Verdict.COMPLETE, 3, 3)


def test_a_wait_that_does_not_fit_is_not_begun() -> None:
    clock = ManualClock()
    report = look(
        Failing(complete_bucket(), unavailable(retry_after_s=61)), clock=clock, budget_s=60
    )
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 75)
    assert "in 61 s, after the 60 s given" in report.why
    assert clock.waits == []


def test_a_wait_that_fits_is_as_long_as_the_server_asks_for() -> None:
    clock = ManualClock()
    report = look(
        Failing(complete_bucket(), unavailable(retry_after_s=50)), clock=clock, budget_s=60
    )
    assert report.verdict is Verdict.COMPLETE
    assert clock.waits == [50]


def test_all_waits_together_fit_the_budget() -> None:
    clock = ManualClock(dice=0.99)
    errors = [unavailable(retry_after_s=25) for _ in range(4)]
    report = look(Failing(complete_bucket(), *errors), clock=clock, budget_s=60)
    assert report.verdict is Verdict.INCOMPLETE
    assert sum(clock.waits) <= 60


def test_the_time_is_looked_at_while_pages_come() -> None:
    clock = ManualClock()

    class Slow(MemoryStore):
        def list_objects(self, prefix: str) -> Iterator[Listed]:
            for one in super().list_objects(prefix):
                clock.now_s += 25
                yield one

    store = Slow()
    store.objects = complete_bucket().objects
    report = look(store, clock=clock, budget_s=60)
    assert (report.verdict, "60 s" in report.why) == (Verdict.INCOMPLETE, True)


def test_a_request_that_hangs_does_not_outlast_the_deadline() -> None:
    go_on = threading.Event()

    class Hanging(MemoryStore):
        def read(self, key: str, version_id: str = "") -> Iterable[bytes]:
            go_on.wait(PATIENCE_S)
            return super().read(key, version_id)

    store = Hanging()
    store.objects = complete_bucket().objects
    report = look(store, clock=SystemClock(), budget_s=0.2)
    go_on.set()
    assert report.verdict is Verdict.INCOMPLETE


def test_a_listing_that_cannot_be_trusted_is_no_verdict() -> None:
    error = BadListing(operation="ListObjectsV2", key="k", code="RepeatedCursor", status=200)
    report = look(Failing(complete_bucket(), *[error] * 20, method="list"))
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 75)
    assert "RepeatedCursor" in report.why


def test_what_is_refused_is_not_tried_again() -> None:
    clock = ManualClock()
    denied = StoreError(operation="GetObject", key="k", code="AccessDenied", status=403)
    assert look(Failing(complete_bucket(), denied), clock=clock).verdict is Verdict.INCOMPLETE
    assert clock.waits == []


def test_patience_ends_between_items() -> None:
    clock = ManualClock()
    patience = Patience(clock, 1)
    clock.now_s += 2
    with pytest.raises(OverBudget):
        list(patience.in_time([1]))


# -- the report


def test_the_facts_name_verdict_and_basis() -> None:
    facts = json.loads(json.dumps(look(complete_bucket()).to_json()))
    assert (facts["run"], facts["verdict"], facts["basis"]) == (str(RUN), "complete", "marker")
    assert facts["read_files"] == 0


def test_a_report_is_in_its_file_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("before")

    def broken() -> None:
        with written(target) as out:
            out.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert target.read_text() == "before"
    with written(target) as out:
        out.write("whole")
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_another_run_is_not_looked_at() -> None:
    store = complete_bucket(run=RunKey("seq", "run ü 10"))
    with pytest.raises(NotFound):
        look(store)


def test_what_fails_after_nobody_waits_any_more_is_nobodys_affair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that looks may go on after a Ctrl-C, and its folder is gone then."""
    let_go, raised = threading.Event(), list[object]()
    monkeypatch.setattr(threading, "excepthook", raised.append)

    class Hanging(MemoryStore):
        def list_objects(self, prefix: str) -> Iterator[Listed]:
            let_go.wait()
            raise FileNotFoundError(prefix)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            look(Hanging())
    (thread,) = (one for one in threading.enumerate() if one.daemon and "run" in one.name)
    let_go.set()
    thread.join()
    assert raised == []


def test_a_failure_that_nobody_foresaw_is_raised_where_it_was_asked_for() -> None:
    class Broken(MemoryStore):
        def list_objects(self, prefix: str) -> Iterator[Listed]:
            raise ZeroDivisionError(prefix)

    with pytest.raises(ZeroDivisionError):
        look(Broken())


def test_a_folder_is_no_file_for_a_report(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="it cannot be written"), written(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.parent.glob(f".{tmp_path.name}.*")) == []
