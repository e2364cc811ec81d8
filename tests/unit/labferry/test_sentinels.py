"""Is the URL of sentinels read as it was meant, and handed on so?"""

import pytest
from kombu.utils.url import url_to_parts

from labferry.sentinels import read_sentinels


def test_every_part_is_read() -> None:
    url = "sentinel://lab:p%40ss@one:26380,[fd00::2],two/3?master=main&sentinel_password=x%26y"
    found = read_sentinels(url)
    assert found.hosts == (("one", 26380), ("fd00::2", 26379), ("two", 26379))
    assert (found.master, found.database) == ("main", 3)
    assert (found.username, found.password, found.sentinel_password) == ("lab", "p@ss", "x&y")


def test_kombu_reads_the_same_hosts() -> None:
    url, options = read_sentinels(
        "sentinel://:p%2Fw@[::1]:26380,[fd00::2],two/3?master=m"
    ).to_celery()
    parts = [url_to_parts(one) for one in url.split(";")]
    assert [(one.hostname, one.port) for one in parts] == [
        ("::1", 26380), ("fd00::2", 26379), ("two", 26379),
    ]  # fmt: skip
    assert {(one.password, one.path) for one in parts} == {("p/w", "3")}
    assert options == {"master_name": "m"}


@pytest.mark.parametrize(
    "url",
    [
        "sentinel://host/0",
        "sentinel://host/0?master=",
        "sentinel://host/0?master=a&master=b",
        "sentinel://host/0?master=m&socket_timeout=1",
        "sentinel://host/x?master=m",
        "sentinel://host/²?master=m",
        "sentinel:///0?master=m",
        "sentinel://host,/0?master=m",
        "sentinel://host:99999/0?master=m",
        "sentinel://[::1/0?master=m",
        "sentinel://:pass?secret@host/0?master=m",
        "sentinel://:pass?secret&more@host/0?master=m",
        "sentinel://:pass#secret@host/0?master=m",
        "sentinel://:pass/secret@host/0?master=m",
        "sentinel://host:secret/0?master=m",
    ],
)
def test_what_is_none_is_refused_and_no_piece_of_a_password_told(url: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT/DATABASE\?master=NAME") as refused:
        read_sentinels(url)
    assert "secret" not in str(refused.value)
