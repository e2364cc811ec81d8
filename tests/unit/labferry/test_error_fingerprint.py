"""Do failures of one cause have one error fingerprint, and those of two causes two?"""

import pytest

from labferry.error_fingerprint import error_fingerprint, without_particulars
from labferry.errors import (
    BadName,
    ChecksumMismatch,
    LabferryError,
    ObjectConflict,
    SourceChanged,
    SourceError,
    StoreError,
)
from labferry.failures import classify
from labferry.identity import Layout, RunKey, encode_path

RUNS = (RunKey("NovaSeq1", "240601_A0001"), RunKey("scope", "movie 7"))
PATHS = (
    "a",
    "the",
    "a.txt",
    "Data/Intensities/BaseCalls/L001/C1.1/L001_1.cbcl",
    "with space/ü 2.raw",
    encode_path(b"not \xff utf8/%41.txt"),
)
FILES = [run.file(path) for run in RUNS for path in PATHS]


def store_error(operation: str, key: str, code: str, detail: str) -> StoreError:
    return StoreError(operation=operation, key=key, code=code, status=403, detail=detail)


def details(number: int) -> str:
    return (
        f"An error occurred (RequestId: {number:016X}abcdef; HostId: k3nL0{number}/xyz+AA==) at "
        f"2026-11-{number:02}T08:15:00Z from 10.0.0.{number}:8333 after {number * 7} ms."
    )


def errors_of(number: int, key: str, path: str) -> dict[str, LabferryError]:
    """Return one error of each cause, as it reads for one file."""
    return {
        "put denied": store_error("PutObject", key, "AccessDenied", details(number)),
        "part denied": store_error("UploadPart", key, "AccessDenied", details(number)),
        "put too large": store_error("PutObject", key, "EntityTooLarge", details(number)),
        "put denied otherwise": store_error("PutObject", key, "AccessDenied", "By a policy."),
        "unreadable": SourceError(path=f"/mnt/share/{path}", errno_name="EACCES"),
        "changed": SourceChanged(path=path, why="its size changed since it was settled"),
        "conflict": ObjectConflict(key=key, why=f"{number} bytes there, {number + 9} here"),
        "mismatch": ChecksumMismatch(key=key, ours=f"{number:016x}", theirs="deadbeefcafef00d"),
        "name": BadName(name=path, why="a segment is longer than 255 bytes"),
    }


def prints() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for number, file in enumerate(FILES, 1):
        for cause, error in errors_of(number, Layout("lab").raw(file), file.path).items():
            failure = classify(error)
            one = error_fingerprint(failure.kind, failure.code, failure.message, file)
            found.setdefault(cause, set()).add(one)
    return found


def test_the_same_cause_has_the_same_fingerprint_whichever_file_and_request() -> None:
    assert {cause: len(found) for cause, found in prints().items()} == dict.fromkeys(prints(), 1)


def test_different_causes_have_different_fingerprints() -> None:
    assert len(set.union(*prints().values())) == len(prints())


@pytest.mark.parametrize("changed", [{"kind": "unknown"}, {"code": "Other"}, {"message": "words"}])
def test_kind_code_and_message_each_count(changed: dict[str, str]) -> None:
    given = {"kind": "permanent", "code": "AccessDenied", "message": "it is not allowed"}
    assert error_fingerprint(**given, file=FILES[0]) != error_fingerprint(
        **{**given, **changed}, file=FILES[0]
    )


def test_a_fingerprint_is_eight_hex_digits() -> None:
    one = error_fingerprint("k", "c", "m \udcff", FILES[0])
    assert len(one) == 8
    assert int(one, 16) >= 0


def test_words_stay_and_particulars_go() -> None:
    message = "PutObject lab/raw/NovaSeq1/240601_A0001/a: \"x y\" isn't at /mnt/a, don't retry 7"
    said = without_particulars(message, FILES[0])
    assert said == "PutObject <path> <text> isn't at <path> don't retry #"
