"""What do `labferry flower` and `labferry monitor` take?"""

from ops.arguments import Config, load


def run_flower(config: Config = None) -> None:
    """Show tasks, queues and workers in a browser; it only reads."""
    from labferry.environment import child_environment
    from ops.flower_access import check_flower, flower_url
    from ops.programs import flower
    from ops.worker import serve

    settings = load(config, "flower")
    check_flower(settings.flower)
    print(f"Flower: {flower_url(settings.flower)}", flush=True)
    serve([flower()], child_environment(config, without=("FLOWER_",)))


def run_monitor(config: Config = None) -> None:
    """Serve a status page, and metrics for Prometheus; it only reads.

    The page shows runs with their progress and explains files; off loopback it asks for the
    password. Metrics name no file and need none. One is enough; several say the same.
    """
    from ops.flower_access import check_monitor, is_loopback, monitor_url
    from ops.programs import become

    settings = load(config, "monitor")
    check_monitor(settings.monitor)
    url = monitor_url(settings.monitor)
    print(f"Status page: {url}  Metrics: {url}metrics")
    if not (
        settings.monitor.basic_auth.get_secret_value() or is_loopback(settings.monitor.address)
    ):
        print("The page is shut until LABFERRY_MONITOR__BASIC_AUTH=user:password is set.")
    become(config, "ops.monitor")
