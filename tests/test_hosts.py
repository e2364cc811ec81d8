"""Do the files for systemd and Kubernetes hold what docs/hosts.md says? Read, without either."""

import configparser
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from labferry.settings import Settings, WorkerSettings, load_settings
from ops.cli import app

ROOT = Path(__file__).parent.parent
COMMANDS = typer.main.get_group(app).commands
UNITS = sorted((ROOT / "ops" / "systemd").glob("*.service"))
MANIFESTS: list[dict[str, Any]] = [
    document
    for path in sorted((ROOT / "ops" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text("utf-8"))
]
OURS = {
    one["metadata"]["name"]: one["spec"]["template"]["spec"]
    for one in MANIFESTS
    if one["kind"] == "Deployment"
}
(CUSTODY,) = (
    one["spec"]["jobTemplate"]["spec"]["template"] for one in MANIFESTS if one["kind"] == "CronJob"
)
#: A worker parks what it holds after short uploads had their time.
GRACE_S = WorkerSettings().soft_shutdown_s + 15

each_unit = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
PODS = {**OURS, "custody": CUSTODY["spec"]}
each_of_ours = pytest.mark.parametrize("name", PODS)


def runs_a_command(words: list[str]) -> bool:
    command, *options = words
    known = {option for one in COMMANDS[command].params for option in one.opts}
    return {one for one in options if not one.isdecimal()} <= known


def service(path: Path) -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # names keep their case
    unit.read(path)
    return unit["Service"]


def test_every_long_running_program_has_a_unit_and_a_deployment() -> None:
    programs = {"agent", "worker", "flower", "monitor"}
    assert {path.stem for path in UNITS} == {f"labferry-{name}" for name in programs | {"custody"}}
    assert set(OURS) == programs | {"sweep"}


def test_custody_is_run_each_night_and_ends_within_its_time() -> None:
    systemd, (cron,) = ROOT / "ops" / "systemd", (one for one in MANIFESTS if is_cron(one))
    timer = (systemd / "labferry-custody.timer").read_text("utf-8")
    assert "OnCalendar=*-*-* " in timer
    assert "WantedBy=timers.target" in timer
    unit = service(systemd / "labferry-custody.service")
    assert (unit["Type"], "Restart" in unit) == ("oneshot", False)
    words = shlex.split(unit["ExecStart"])[1:]
    job = cron["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert container["args"] == words
    budget_s = float(words[words.index("--budget") + 1])
    assert unit["TimeoutStartSec"] == "3h"
    assert job["activeDeadlineSeconds"] == 3 * 3600 > budget_s
    assert (job["backoffLimit"], cron["spec"]["concurrencyPolicy"]) == (0, "Forbid")


def is_cron(manifest: dict[str, Any]) -> bool:
    return bool(manifest["kind"] == "CronJob")


def test_workers_are_scaled_by_a_metric_that_is_there() -> None:
    (scaler,) = (one for one in MANIFESTS if one["kind"] == "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] in OURS
    (metric,) = scaler["spec"]["metrics"]
    name = metric["external"]["metric"]["name"]
    assert f"| `{name}` | gauge |" in (ROOT / "docs" / "monitoring.md").read_text("utf-8")


@each_unit
def test_a_unit_runs_a_command_as_nobody_special_and_stops_it_in_good_order(path: Path) -> None:
    unit = service(path)
    binary, *words = shlex.split(unit["ExecStart"])
    assert Path(binary).is_absolute()
    assert runs_a_command(words)
    assert unit["User"] == "labferry"
    assert unit["ProtectSystem"] == "strict"
    assert unit["KillMode"] == "mixed"  # programs that a supervisor started stop by its word
    assert float(unit["TimeoutStopSec"]) > GRACE_S
    assert "EnvironmentFile" in unit  # and no secret anywhere else
    assert "AWS" not in unit.get("Environment", "")


@each_of_ours
def test_a_pod_runs_a_command_without_rights_and_stops_in_good_order(name: str) -> None:
    pod = PODS[name]
    (container,) = pod["containers"]
    assert runs_a_command(container["args"])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["terminationGracePeriodSeconds"] > GRACE_S
    assert "memory" in container["resources"]["limits"]
    assert "livenessProbe" in container or name == "custody"  # which ends by itself
    asked = container.get("readinessProbe", {}).get("exec", {"command": ["", "doctor"]})["command"]
    assert runs_a_command(asked[1:])
    assert {one["name"] for one in container["volumeMounts"] if not one.get("readOnly")} == {"tmp"}


def test_whoever_reads_shares_has_them_and_nobody_else() -> None:
    have = {name for name, pod in OURS.items() if "shares" in str(pod["volumes"])}
    assert have == {"agent", "worker"}


def test_the_settings_in_the_manifests_are_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (given,) = (one for one in MANIFESTS if one["kind"] == "ConfigMap")
    (tmp_path / "labferry.toml").write_text(given["data"]["labferry.toml"])
    (secret,) = (one for one in MANIFESTS if one["kind"] == "Secret")
    for name, value in secret["stringData"].items():
        assert "CHANGE-ME" in value
        monkeypatch.setenv(name, value)
    settings: Settings = load_settings(tmp_path / "labferry.toml")
    assert settings.ledger.url != settings.broker.url


def test_the_ledger_of_the_manifests_is_durable_and_evicts_nothing() -> None:
    (valkey,) = (one for one in MANIFESTS if one["kind"] == "StatefulSet")
    (container,) = valkey["spec"]["template"]["spec"]["containers"]
    command = " ".join(container["command"])
    for option in ("--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"):
        assert option in command
    assert valkey["spec"]["volumeClaimTemplates"]


def test_only_labferry_s_own_pods_reach_the_ledger() -> None:
    (policy,) = (one for one in MANIFESTS if one["kind"] == "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    (source,) = rule["from"]
    (label,) = source["podSelector"]["matchLabels"].items()
    pods = [one["spec"]["template"] for one in MANIFESTS if one["kind"] == "Deployment"]
    pods.append(CUSTODY)
    assert all(label in pod["metadata"]["labels"].items() for pod in pods)
