"""What does a real Flower answer, its pages and its API?"""

import base64
import json
import urllib.parse
import urllib.request
from typing import Any

from tests.waiting import PATIENCE_S

PASSWORD = "ada:lovelace"


class Flower:
    """Asks one Flower for its pages."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/"

    def text(self, path: str) -> str:
        request = urllib.request.Request(self._url + path)
        coded = base64.b64encode(PASSWORD.encode()).decode()
        request.add_header("Authorization", f"Basic {coded}")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
            return text

    def is_there(self) -> bool:
        try:
            return bool(self.text("healthcheck"))
        except OSError:
            return False

    def workers(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.text("workers?json=1"))["data"]
        return {one["hostname"]: one for one in found}

    def heard(self) -> int:
        return sum(one.get("worker-heartbeat", 0) for one in self.workers().values())

    def rows(self, search: str = "") -> list[dict[str, Any]]:
        """Return the tasks as the page's own table gets them."""
        columns = {"draw": 1, "start": 0, "length": 100, "search[value]": search}
        order = {"order[0][column]": 0, "order[0][dir]": "asc", "columns[0][data]": "name"}
        path = f"tasks/datatable?{urllib.parse.urlencode({**columns, **order})}"
        rows: list[dict[str, Any]] = json.loads(self.text(path))["data"]
        return rows

    def row(self, name: str) -> dict[str, Any]:
        """Return the one task whose shown arguments end so, below a folder; {} for none."""
        rows = self.rows(name.partition(" ")[0])
        (found,) = [one for one in rows if one["args"].endswith(f"/{name}")] or [{}]
        return found

    def info(self, task: str) -> dict[str, Any]:
        """Return what the API tells of a task."""
        found: dict[str, Any] = json.loads(self.text(f"api/task/info/{urllib.parse.quote(task)}"))
        return found
