"""Which runs has the bucket anything of?"""

from collections.abc import Iterator

from labferry.errors import BadName
from labferry.identity import Layout, RunKey
from labferry.ports import ObjectStore

_KINDS = ("raw", "editions", "runs", "quarantine")


def runs_in_sight(store: ObjectStore, layout: Layout, strange: list[str]) -> list[RunKey]:
    """Return the runs that anything lies below, sorted; a name that no run can have is added to
    `strange`. Raises: StoreError."""
    found = set[RunKey]()
    for kind in _KINDS:
        prefix = layout.everything(kind)
        for name in _run_names(store, prefix):
            try:
                found.add(RunKey.parse(name))
            except BadName as error:
                strange.append(f"{prefix}{name}: {error}")
    return sorted(found)


def _run_names(store: ObjectStore, prefix: str) -> Iterator[str]:
    for instrument in store.list_folders(prefix):
        for run in store.list_folders(f"{prefix}{instrument}/"):
            yield f"{instrument}/{run}"
