"""Which run does `labferry explain --bundle` mean, and what does it say?"""

from pathlib import Path

from labferry.identity import RunKey
from labferry.ledger import open_ledger
from labferry.s3.store import open_store
from labferry.settings import Settings
from ops.bundle import write_bundle
from ops.overview import read_run_key


def bundle_run(settings: Settings, key: str, output: Path) -> None:
    """Write the archive of the run that is named, or of a file's. Raises: NotFound."""
    run: RunKey = read_run_key("/".join(key.split("/")[:2]))
    count = write_bundle(
        settings, open_ledger(settings.ledger), open_store(settings.store), run, output
    )
    print(f"Wrote {output}: {count} members about {run}, and SHA256SUMS.")
