"""Are traces off unless they are asked for, and is what lacks named?"""

import sys

import pytest

from labferry.errors import SettingsError
from labferry.tracing import start_tracing


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    start_tracing("worker", None)()


def test_without_the_extra_an_endpoint_is_refused_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [one for one in sys.modules if one.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SettingsError, match=r"pip install 'labferry\[traces\]'"):
        start_tracing("worker", "http://127.0.0.1:9/v1/traces")
