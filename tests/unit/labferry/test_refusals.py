"""Is what mends a ledger or broker said of servers that are there and cannot be used, alone?"""

import pytest
from redis.exceptions import ConnectionError as Away
from redis.exceptions import OutOfMemoryError, ResponseError

from labferry.refusals import mend_of

MISCONF = "MISCONF Errors writing to the AOF file: No space left on device"


@pytest.mark.parametrize(
    ("error", "mend"),
    [
        (OutOfMemoryError("command not allowed"), "raise `maxmemory` of the server"),
        (ResponseError(MISCONF), "make room there"),
    ],
)
def test_a_server_that_is_full_is_not_said_to_be_away(error: Exception, mend: str) -> None:
    assert mend in str(mend_of(error, "[ledger] url"))


@pytest.mark.parametrize("error", [Away("refused"), ResponseError("ERR of a MISCONF")])
def test_what_is_no_refusal_has_no_mend(error: Exception) -> None:
    assert mend_of(error, "[ledger] url") is None
