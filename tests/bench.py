"""An agent on a real folder and a ledger whose time the test moves; workers are played."""

from pathlib import Path

from labferry.completion import RunState
from labferry.identity import RunKey
from labferry.records import Completion, Evidence, Level, RunFacts, Step
from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from labferry.states import Event, State
from producer.agent import Agent
from producer.report import RunReport
from tests.manual_clock import ManualClock
from tests.memory_ledger import MemoryLedger
from tests.recorded_wakeups import RecordedWakeups


class Bench:
    """One run of one instrument, by a profile."""

    def __init__(self, root: Path, profile: str, run: RunKey, **fields: object) -> None:
        self.root, self.run = root, run
        self.folder = root.joinpath(*run.folders)
        self.folder.mkdir(parents=True)
        self.ledger = MemoryLedger()
        self.clock = ManualClock()
        self._wakeups = RecordedWakeups()
        self._played = 0
        instrument = InstrumentSettings.model_validate({"root": root, "profile": profile, **fields})
        self._settings = Settings.model_construct(
            store=StoreSettings(bucket="bucket"),
            broker=BrokerSettings(window_messages=10_000, bundle_max_files=1),
            worker=WorkerSettings(),
            instruments={run.instrument: instrument},
        )
        self.profile = instrument.resolved()
        self.new_agent()

    def new_agent(self) -> "Bench":
        """Let another agent go on, as after a restart."""
        self._agent = Agent(
            self.run.instrument,
            self._settings,
            self.ledger,
            self._wakeups,
            self.clock,
        )
        return self

    def change(self, profile: str, **fields: object) -> None:
        """Let another agent go on under other settings of the instrument."""
        changed = {"root": self.root, "profile": profile, **fields}
        instrument = InstrumentSettings.model_validate(changed)
        self._settings.instruments[self.run.instrument] = instrument
        self.profile = instrument.resolved()
        self.new_agent()

    def agent(self) -> Agent:
        """Return the agent that looks."""
        return self._agent

    def write(self, *paths: str, content: bytes = b"x") -> None:
        """Write files, or write them again."""
        for path in paths:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def append(self, path: str) -> None:
        with (self.folder / path).open("ab") as file:
            file.write(b"more")

    def wait(self, seconds: float) -> None:
        self.ledger.pass_ms(round(seconds * 1000))

    def look(self) -> RunReport:
        """Make one pass; return what it says of the run."""
        report = self._agent.make_pass(lambda: False)
        assert not report.failed, report
        reports = [one for one in report.runs if one.run == str(self.run)]
        return reports[0] if reports else RunReport(run=str(self.run))

    def looks(self, seconds: float) -> RunReport:
        """Look every 15 s for so long."""
        report = self.look()
        for _ in range(int(seconds // 15)):
            self.wait(15)
            report = self.look()
        return report

    def work(self) -> None:
        """Do what workers do: verify what was published, release what goes last, complete."""
        evidence = Evidence(level=Level.A, crc64=1, etag="0" * 32)
        for bundle in self._wakeups.bundles[self._played :]:
            for claim in self.ledger.claim(bundle.run, bundle.number, bundle.paths, 1):
                step = Step(path=claim.path, token=claim.token, evidence=evidence)
                self.ledger.move(bundle.run, Event.VERIFY, [step])
        self._played = len(self._wakeups.bundles)

    def complete(self) -> None:
        """Complete a sealed run, its last files after all others."""
        self.look()
        self.work()
        for path in self.ledger.pending_last(self.run):
            record = self.ledger.find_record(self.run.file(path))
            assert record is not None
            step = Step(path=path, fingerprint=record.fingerprint, lane=record.lane)
            self.ledger.move(self.run, Event.SETTLE, [step])
        self.look()
        self.work()
        facts = self.facts()
        assert facts.counts[State.VERIFIED] == sum(facts.counts.values()), facts.counts
        completion = Completion(
            generation=facts.generation,
            file_count=facts.counts[State.VERIFIED],
            manifest_key="m",
            manifest_digest="d",
            marker_key="k",
            event="{}",
        )
        assert self.ledger.complete(self.run, completion)

    def facts(self) -> RunFacts:
        found = self.ledger.find_facts(self.run)
        assert found is not None
        return found

    def state(self, path: str) -> State:
        found = self.ledger.find_record(self.run.file(path))
        assert found is not None, f"{path} is not on record"
        return found.state

    def until_sealed(self, within_s: float = 7200) -> float:
        """Look until the run is sealed; return how long that took."""
        waited_s = 0.0
        while self.look().state != RunState.SEALED:
            assert waited_s < within_s, lacking(self.look())
            self.wait(15)
            waited_s += 15
        return waited_s


def lacking(report: RunReport) -> dict[str, str]:
    """Return the parts of the done rule that hold a run back, with what they looked at."""
    return {part.name: part.looked_at for part in report.done if not part.passes}
