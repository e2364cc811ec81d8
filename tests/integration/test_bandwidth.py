"""Do processes, hosts apart, keep to one limit together, and is every byte read under it?"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.ledger import open_ledger
from labferry.limits import OVERALL, Limit
from labferry.settings import LedgerSettings
from labferry.states import State
from ops.cli import run_command
from tests.dock import MIB, Dock
from tests.ledger_world import ACT
from tests.memory_store import MemoryStore
from tests.waiting import PATIENCE_S

RATE = 8_000_000
READERS = 3


def test_several_processes_keep_to_a_limit_together(ledger_url: str) -> None:
    ledger = open_ledger(LedgerSettings(url=ledger_url))
    ledger.set_limit(OVERALL, Limit(bytes_per_s=RATE, actor="a", reason="r", at_ms=0), ACT)
    size = RATE  # each of them could read that in a second, alone
    command = [sys.executable, "-m", "tests.limited_reader", ledger_url, str(READERS), str(size)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(READERS)]
    times = [
        list(map(int, reader.communicate(timeout=PATIENCE_S)[0].split())) for reader in readers
    ]
    took_s = (max(end for _, end in times) - min(begin for begin, _ in times)) / 1000
    assert took_s >= READERS * 0.85, "together they were faster than the limit"
    assert took_s < READERS * 3, "they waited for more than the limit asks"


def test_every_byte_is_asked_for_before_it_is_read(tmp_path: Path, ledger_url: str) -> None:
    dock = Dock(tmp_path, ledger_url, MemoryStore())
    dock.tune("store", single_put_max_bytes=MIB, part_size_bytes=5 * MIB)
    sizes = {"small": 3, "mid": MIB, "large": 12 * MIB + 1, "none": 0}
    asked: list[int] = []

    def take(size: int) -> int:
        granted = min(size, 400_000)
        asked.append(granted)
        return granted

    for name, size in sizes.items():
        dock.write(name, bytes(size))
    dock.settle(*sizes)
    dock.ferry(take=take)
    assert {dock.state(name) for name in sizes} == {State.VERIFIED}
    assert dock.stored("large") == bytes(sizes["large"])
    assert sum(asked) == sum(sizes.values())


@pytest.fixture
def config(tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "labferry.toml"
    path.write_text(
        f'[store]\nbucket = "bucket"\n[ledger]\nurl = "{ledger_url}"\n'
        '[limits]\nschedule = ["mon-sun 80MB"]\n'
        f'[instruments.seq]\nroot = "{tmp_path}"\nbandwidth_bytes_per_s = 5000000\n'
    )
    yield path


def limits(config: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, str]]:
    assert run_command(["limit", "--json", "--config", str(config)]) == 0
    shown = json.loads(capsys.readouterr().out)["limits"]
    return {one["name"]: (one["bytes_per_s"], one["why"]) for one in shown}


def test_limits_are_shown_changed_and_put_back_on_record(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert limits(config, capsys) == {
        "all": (80_000_000, "the schedule"),
        "seq": (5_000_000, "the settings"),
    }
    change = ["limit", "seq", "2MB", "--until", "2h", "--config", str(config)]
    assert run_command(change) == 2, "a reason is demanded"
    assert run_command([*change, "--reason", "backup"]) == 0
    assert "until" in capsys.readouterr().out
    rate, why = limits(config, capsys)["seq"]
    assert rate == 2_000_000
    assert why.endswith(": backup")
    assert run_command(["limit", "--config", str(config)]) == 0
    assert "2.0 MB" in capsys.readouterr().out

    everything = ["limit", "all", "unlimited", "--reason", "night", "--config", str(config)]
    assert run_command(everything) == 0
    capsys.readouterr()
    assert limits(config, capsys)["all"][0] is None
    back = ["limit", "seq", "default", "--reason", "done", "--config", str(config)]
    assert run_command(back) == 0
    capsys.readouterr()
    assert limits(config, capsys)["seq"] == (5_000_000, "the settings")
    assert run_command(["audit", "--config", str(config), "--json"]) == 0
    acts = json.loads(capsys.readouterr().out)
    assert "backup" in str(acts)


@pytest.mark.parametrize(
    ("words", "code"), [(["nobody", "1MB"], 5), (["seq", "fast"], 2), (["seq"], 2)]
)
def test_what_is_no_limit_is_refused(config: Path, words: list[str], code: int) -> None:
    assert run_command(["limit", *words, "--reason", "r", "--config", str(config)]) == code
