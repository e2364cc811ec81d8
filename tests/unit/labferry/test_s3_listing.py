"""Is a listing refused whose cursor cannot be trusted?"""

from typing import Any

import pytest

from labferry.errors import BadListing
from labferry.s3.listing import Listing


def pages(*cursors: Any, max_pages: int = 9) -> list[Any]:
    found = iter(cursors)

    def ask(**_: Any) -> dict[str, Any]:
        cursor = next(found)
        return {"Name": "b", "IsTruncated": cursor != "end", "NextContinuationToken": cursor}

    cursor = {"ContinuationToken": "NextContinuationToken"}
    return list(Listing("ListObjectsV2", "k", cursor, max_pages=max_pages).pages(ask))


@pytest.mark.parametrize("wrong", [{"a": 1}, ["x"], 1.5, b"x"])
def test_a_cursor_of_another_type_is_an_error(wrong: Any) -> None:
    with pytest.raises(BadListing, match="WrongCursor"):
        pages(wrong, "end")


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_cursor_is_an_error(missing: Any) -> None:
    with pytest.raises(BadListing, match="MissingCursor"):
        pages(missing, "end")


def test_a_repeated_cursor_is_an_error_also_after_others() -> None:
    with pytest.raises(BadListing, match="RepeatedCursor"):
        pages("a", "b", "a", "end")


def test_too_many_pages_are_an_error() -> None:
    with pytest.raises(BadListing, match="TooManyPages"):
        pages(*map(str, range(20)), max_pages=5)


def test_a_sound_listing_is_read_to_its_end() -> None:
    assert len(pages("a", "b", "end")) == 3
