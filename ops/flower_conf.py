"""Which options does Flower run with? Flower itself reads this file (`--conf`): names are options.

It shows and never acts. `max_tasks` bounds its memory (about 5 KB a task), and nothing is kept over
a restart: the ledger is the record, Flower is a window. A probe ends it when it hears nothing.
"""

from typing import Any

from labferry.settings import load_settings
from ops.flower_probe import watch_stream

_settings = load_settings()
_flower = _settings.flower
_password = _flower.basic_auth.get_secret_value()

address = _flower.address
port = _flower.port
url_prefix = _flower.url_prefix.strip("/")
basic_auth = [_password] if _password else []
read_only = True
max_tasks = _flower.max_tasks
purge_offline_workers = 3600  # a container that was replaced is no news for ever
persistent = False
logging = "error"  # a worker that is not up yet is no news
tasks_columns = "name,state,received,runtime,retries,worker"


def format_task(task: Any) -> Any:
    """Show a file's whole path where the name is a link: Flower cuts arguments off."""
    task.name = task.args or task.name
    return task


watch_stream(_settings)
