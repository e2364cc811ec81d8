"""Is an answer read as it was given, however it comes in?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.s3.http_answer import AnswerReader, BadAnswer, HttpAnswer

PLAIN = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 4\r\n\r\nbody'
CHUNKED = (
    b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4\r\n<Err\r\n3;x=y\r\nor>\r\n0\r\n\r\n"
)


def read(*pieces: bytes) -> HttpAnswer | None:
    reader = AnswerReader()
    answers = [reader.feed(piece) for piece in pieces]
    assert all(answer is None for answer in answers[:-1])
    return answers[-1]


@pytest.mark.parametrize(
    ("raw", "status", "body"), [(PLAIN, 200, b"body"), (CHUNKED, 403, b"<Error>")]
)
@given(data=st.data())
def test_an_answer_may_come_in_pieces(
    raw: bytes, status: int, body: bytes, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(raw) - 1))
    answer = read(raw[:cut], raw[cut:])
    assert answer is not None
    assert (answer.status, answer.body, answer.keeps_alive) == (status, body, True)


@pytest.mark.parametrize(
    "end", [b"0\r\n\r\n", b"0\r\nX-Sum: 1\r\n\r\n", b"000;a=b\r\nA: b\r\nC: d\r\n\r\n"]
)
def test_an_answer_in_chunks_is_whole_with_its_last_byte_alone(end: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n" + end
    pieces = [raw[at : at + 1] for at in range(len(raw))]
    answer = read(*pieces)
    assert answer is not None
    assert (answer.body, answer.keeps_alive) == (b"body", True)


@pytest.mark.parametrize("raw", [PLAIN, CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n"])
def test_a_connection_with_more_than_the_answer_is_not_kept(raw: bytes) -> None:
    answer = read(raw + b"HTTP/1.1 200 OK\r\n")
    assert answer is not None
    assert not answer.keeps_alive


def test_names_of_headers_are_in_lower_case() -> None:
    answer = read(PLAIN)
    assert answer is not None
    assert answer.headers == {"etag": '"e"', "content-length": "4"}


def test_what_comes_before_the_answer_is_left_out() -> None:
    answer = read(b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN)
    assert answer is not None
    assert answer.status == 200


def test_without_a_length_the_end_of_the_connection_ends_the_answer() -> None:
    answer = read(b"HTTP/1.1 503 Slow\r\n\r\nno", b"t so fast", b"")
    assert answer is not None
    assert (answer.body, answer.keeps_alive) == (b"not so fast", False)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_connection_that_the_server_will_close_is_not_kept(raw: bytes) -> None:
    answer = read(raw)
    assert answer is not None
    assert not answer.keeps_alive


@pytest.mark.parametrize(
    "pieces",
    [
        (b"",),
        (PLAIN[:-1], b""),
        (CHUNKED[:-1], b""),
        (b"SSH-2.0-OpenSSH\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n-2\r\n",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n",),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 2_000_000,),
    ],
)
def test_what_is_no_whole_answer_is_a_lost_connection(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(BadAnswer):
        read(*pieces)
