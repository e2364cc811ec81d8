"""Is it said who acts and why, whoever that is?"""

import os
import pwd
import socket

import pytest

from labferry.errors import SettingsError
from ops.consent import act_of, actor

USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_an_act_without_a_reason_is_refused(reason: str | None) -> None:
    with pytest.raises(SettingsError) as refusal:
        act_of("discard", reason)
    assert refusal.value.field == "--reason"


def test_an_act_names_the_account_and_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getlogin", lambda: USER)
    act = act_of("discard", " LIMS-7 ", "--all")
    assert act.actor == f"{USER}@{socket.gethostname()}"
    assert (act.reason, act.what, act.selector) == ("LIMS-7", "discard", "--all")


def test_who_logged_in_is_named_when_that_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getlogin", lambda: "ada")
    assert actor() == f"ada as {USER}@{socket.gethostname()}"


def test_a_container_without_terminal_or_account_has_an_actor_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(_: object = None) -> None:
        raise OSError

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("os.getlogin", nobody)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert actor() == f"uid {os.getuid()}@{socket.gethostname()}"
