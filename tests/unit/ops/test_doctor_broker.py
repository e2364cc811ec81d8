"""What does the doctor say of a broker before it asks it anything?"""

import pytest

from labferry.messages import upload_queue
from labferry.records import Lane
from ops.doctor.broker import unfit_for_sqs
from ops.doctor.finding import Verdict


@pytest.mark.parametrize(
    ("names", "is_fit"),
    [(["a.b", "a-c"], True), (["a.b", "a-b"], False), (["a" * 80], False), (["a" * 60], True)],
)
def test_queues_that_sqs_cannot_tell_apart_are_bad(names: list[str], *, is_fit: bool) -> None:
    found = list(unfit_for_sqs([upload_queue(name, Lane.SMALL) for name in names]))
    assert [one.verdict for one in found] == ([] if is_fit else [Verdict.BAD])
