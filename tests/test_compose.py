"""Do the container files hold what docs/containers.md says? Read, without Docker."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from labferry.settings import Settings, load_settings
from ops.cli import app

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "labferry"}
DOCKERFILE = (ROOT / "ops" / "Dockerfile").read_text("utf-8")
COMMANDS = typer.main.get_group(app).commands

each_of_ours = pytest.mark.parametrize("name", OURS)
each = pytest.mark.parametrize("name", SERVICES)


def words(text: Any) -> list[str]:
    return shlex.split(text) if isinstance(text, str) else list(text)


def test_the_programs_of_labferry_are_there() -> None:
    assert set(OURS) == {"agent", "worker", "sweep", "flower", "monitor", "custody"}
    assert SERVICES["sweep"]["scale"] == 2


@each_of_ours
def test_a_service_runs_a_command_that_exists_with_options_it_has(name: str) -> None:
    command, *options = words(SERVICES[name]["command"])
    known = {option for one in COMMANDS[command].params for option in one.opts}
    assert {one for one in options if not one.isdecimal()} <= known


@each
def test_a_service_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@pytest.mark.parametrize("name", ["agent", "worker", "sweep"])
def test_a_service_without_pages_is_well_when_it_runs_and_its_servers_answer(name: str) -> None:
    alive, asked = SERVICES[name]["healthcheck"]["test"][1].split(" && ")
    assert alive.startswith("python -P -m ops.alive ")
    assert asked.split() == ["labferry", "doctor", "--light"]


@each_of_ours
def test_a_service_of_ours_cannot_write_anywhere_but_in_tmp(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert all(volume.endswith(":ro") for volume in service["volumes"])


@each_of_ours
def test_a_service_of_ours_is_not_root_and_gains_no_rights(name: str) -> None:
    service = SERVICES[name]
    assert re.match(r"\$\{LABFERRY_UID:-[1-9]\d+\}:", service["user"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@each
def test_a_service_takes_no_more_than_its_share_of_memory(name: str) -> None:
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])


def test_the_image_is_not_root() -> None:
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert users and not users[-1].startswith(("0", "root"))


@each_of_ours
def test_a_service_of_ours_stops_in_good_order(name: str) -> None:
    service = SERVICES[name]
    grace_s = float(service["stop_grace_period"].removesuffix("s"))
    soft_shutdown_s = Settings.model_fields["worker"].default.soft_shutdown_s
    assert service["init"] is True
    assert grace_s > soft_shutdown_s + 15


@each
def test_a_service_can_be_scaled_and_is_started_again(name: str) -> None:
    assert "container_name" not in SERVICES[name]
    # What ends by itself is not started again.
    wanted = {"no"} if name == "custody" else {"always", "unless-stopped"}
    assert SERVICES[name]["restart"] in wanted


@each
def test_what_can_be_reached_can_be_reached_from_its_host_alone(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    to_look_at = {"flower", "monitor", "prometheus", "grafana"}
    assert len(ports) == (1 if name in to_look_at else 0)
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_asks_the_services_there_are_at_the_ports_they_have() -> None:
    config = yaml.safe_load((ROOT / "ops" / "prometheus" / "prometheus.yml").read_text("utf-8"))
    for scrape in config["scrape_configs"]:
        for target in scrape["static_configs"][0]["targets"]:
            host, _, port = target.partition(":")
            name = {"localhost": "prometheus"}.get(host, host)
            assert SERVICES[name]["ports"][0].endswith(f":{port}")


def test_grafana_finds_prometheus_and_the_dashboard_where_they_are_mounted() -> None:
    provisioned = ROOT / "ops" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioned / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioned / "dashboards" / "labferry.yml").read_text())[
        "providers"
    ]
    mounted = [one.split(":")[1] for one in SERVICES["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/labferry.json" in mounted
    for service in ("prometheus", "grafana"):
        sources = [one.split(":")[0] for one in SERVICES[service]["volumes"]]
        assert all((ROOT / one).exists() for one in sources if one.startswith("./"))


def test_flower_is_not_started_without_a_password() -> None:
    environment = SERVICES["flower"]["environment"]
    assert ":?" in environment["LABFERRY_FLOWER__BASIC_AUTH"]


@each_of_ours
def test_no_secret_has_a_value_in_the_file(name: str) -> None:
    environment = SERVICES[name]["environment"]
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= set(environment)
    assert {value for key, value in environment.items() if key.startswith("AWS_")} == {None}


def test_the_ledger_is_durable_and_evicts_nothing() -> None:
    command = " ".join(words(SERVICES["valkey"]["command"]))
    for option in ("--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"):
        assert option in command
    (volume,) = SERVICES["valkey"]["volumes"]
    assert volume.partition(":")[0] in COMPOSE["volumes"]


def test_every_program_waits_for_the_ledger() -> None:
    for service in OURS.values():
        assert service["depends_on"] == {"valkey": {"condition": "service_healthy"}}


def test_what_not_everybody_needs_is_only_there_when_asked_for() -> None:
    profiles = {name: one.get("profiles") for name, one in SERVICES.items()}
    asked_for = {"s3": "local-s3"} | {one: one for one in ("prometheus", "grafana", "custody")}
    for name, profile in asked_for.items():
        assert profiles.pop(name) == [profile]
    assert set(profiles.values()) == {None}


def test_the_settings_of_the_trial_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABFERRY_CONFIG", raising=False)
    settings = load_settings(ROOT / "ops" / "trial.toml")
    assert f"-bucket={settings.store.bucket}" in SERVICES["s3"]["command"]
    assert all(str(one.root).startswith("/shares/") for one in settings.instruments.values())


def test_the_image_takes_every_package_and_only_pinned_requirements() -> None:
    for package in ("labferry", "producer", "workers", "ops"):
        assert f"COPY {package} {package}\n" in DOCKERFILE
    installs = re.findall(r"pip install (.+?)(?: \\|$)", DOCKERFILE, re.MULTILINE)
    assert installs
    assert all("--require-hashes" in one or "--no-index" in one for one in installs)
    assert "://" not in DOCKERFILE
