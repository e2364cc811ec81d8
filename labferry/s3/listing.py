"""When can a listing not be trusted?

A server, or a proxy before it, that repeats a cursor or forgets it would be asked for ever, or
would end a listing too early. Every listing goes through these guards.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from labferry.errors import BadListing

Page = Mapping[str, Any]
#: Takes the cursor as request arguments; the first page is asked for without any.
Ask = Callable[..., Page]

#: 100 million objects below one prefix.
MAX_PAGES = 100_000


class Listing:
    """One listing: which request, and which answer fields make its cursor.

    `cursor` maps request arguments to answer fields; the first of them must always be there.
    """

    def __init__(
        self, operation: str, key: str, cursor: Mapping[str, str], *, max_pages: int = MAX_PAGES
    ) -> None:
        self._operation = operation
        self._key = key
        self._cursor = dict(cursor)
        self._max_pages = max_pages
        # botocore reads an empty or an HTML page with status 200 as an empty listing; a real one
        # names its bucket.
        self._bucket_field = "Name" if operation == "ListObjectsV2" else "Bucket"

    def pages(self, ask: Ask) -> Iterator[Page]:
        """Yield every page. Raises: BadListing for a missing or repeated cursor or no end."""
        seen: set[tuple[object, ...]] = set()
        arguments: dict[str, Any] = {}
        for _ in range(self._max_pages):
            page = ask(**arguments)
            if not page.get(self._bucket_field):
                self.refuse("NotAListing", "the answer names no bucket")
            yield page
            if not page.get("IsTruncated"):
                return
            values = tuple(page.get(field) for field in self._cursor.values())
            if values[0] is None or values[0] == "":
                self.refuse("MissingCursor", "it goes on but does not say where")
            if not all(isinstance(value, str | int | None) for value in values):
                self.refuse("WrongCursor", "where it goes on is neither a text nor a number")
            if values in seen:
                self.refuse("RepeatedCursor", f"it came to {values[0]!r} before")
            seen.add(values)
            arguments = dict(zip(self._cursor, values, strict=True))
        self.refuse("TooManyPages", f"it has no end after {self._max_pages} pages")

    def growing(self, ask: Ask) -> Iterator[Page]:
        """As `pages`, for a cursor that is a number which must grow."""
        (field,) = self._cursor.values()
        last = 0
        for page in self.pages(ask):
            yield page
            if page.get("IsTruncated") and page.get(field) is not None:
                if not page[field] > last:
                    self.refuse("CursorDoesNotGrow", f"{page[field]} follows {last}")
                last = page[field]

    def refuse(self, code: str, why: str) -> NoReturn:
        """Give the listing up. Raises: BadListing."""
        raise BadListing(
            operation=self._operation,
            key=self._key,
            code=code,
            status=200,
            detail=f"The listing cannot be trusted: {why}. Try again; look for a proxy in between.",
        )
