"""Is what docs/proof.md says was tried really tried?"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "proof.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", TEXT, re.MULTILINE)


def numbers_in(path: str) -> set[str]:
    """The numbers that the docstrings of a file's tests claim."""
    source = (ROOT / path).read_text("utf-8")
    claims = re.findall(r'"""Tests? ([\d, and]+)[:. ]', source)
    return {number for claim in claims for number in re.findall(r"\d+", claim)} | set(
        re.findall(r"^Test (\d+) of research", source, re.MULTILINE)
    )


def test_all_of_researchs_tests_are_there() -> None:
    assert [number for number, _ in ROWS] == [str(number) for number in range(1, 26)]


def test_each_is_claimed_by_a_test_in_a_file_that_is_named() -> None:
    for number, where in ROWS:
        paths = re.findall(r"`(tests/[\w/]+\.py)`", where)
        assert paths
        assert any(number in numbers_in(path) for path in paths), number


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`((?:tests|labferry|workers)/[\w/]+\.py)`", TEXT)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_all_of_researchs_cases_on_celery_are_there() -> None:
    cases = re.findall(r"^\| C(\d+) \| .* \| (.*) \|$", TEXT, re.MULTILINE)
    assert [number for number, _ in cases] == [str(number) for number in range(1, 16)]
    assert all(re.findall(r"`tests/[\w/]+\.py`", where) for _, where in cases)
