"""What is on record of multipart uploads, and what is the endpoint proven to do?"""

from typing import Any

from labferry.errors import Fenced
from labferry.identity import FileKey, RunKey
from labferry.ledger.keys import RunKeys, endpoint_proof
from labferry.ledger.layout import letters
from labferry.ledger.plans import pack_part, pack_plan, pack_proof, unpack_plan, unpack_proof
from labferry.ledger.section import Section
from labferry.ledger.server import Argument
from labferry.records import Part, Proof, Upload
from labferry.states import LEASED

_LEASED = letters(LEASED)


class Uploads(Section):
    """The part of the ledger that lets an upload be resumed."""

    def find_upload(self, file: FileKey) -> Upload | None:
        """Return the multipart plan on record."""
        key = RunKeys(file.run).upload + file.path
        fields = self._server.ask(self._server.client.hgetall, key)
        return unpack_plan(fields) if fields else None

    def save_upload(self, file: FileKey, token: int, upload: Upload) -> None:
        """Record the plan, without its parts."""
        self._plan(file, token, pack_plan(upload))

    def save_parts(self, file: FileKey, token: int, parts: dict[int, Part]) -> None:
        """Record parts by number."""
        self._plan(file, token, [x for n, part in parts.items() for x in pack_part(n, part)])

    def drop_upload(self, file: FileKey, token: int) -> None:
        """Forget the plan."""
        self._plan(file, token, [])

    def _plan(self, file: FileKey, token: int, fields: list[Argument]) -> None:
        keys = RunKeys(file.run)
        args: list[Argument] = [_LEASED, file.path, token, *fields]
        if not self._server.script("plan", [keys.files, keys.upload + file.path], args):
            raise Fenced(file=str(file), token=token)

    def bytes_under_way(self, run: RunKey) -> int:
        """Return the bytes that are acknowledged of files under a lease."""
        keys = RunKeys(run)
        paths = self._server.ask(self._server.client.zrange, keys.leases, 0, -1)

        def fill(pipe: Any) -> None:
            for path in paths:
                pipe.hgetall(keys.upload + path.decode())

        plans = [unpack_plan(fields) for fields in self._server.pipeline(fill) if fields]
        return sum(part.size for plan in plans for part in plan.parts.values() if part.etag)

    def find_proof(self, endpoint: str) -> Proof | None:
        """Return what the endpoint was proven to do, if that is not too old."""
        value = self._server.ask(self._server.client.get, endpoint_proof(endpoint))
        return unpack_proof(value) if value else None

    def save_proof(self, endpoint: str, proof: Proof, *, keep_s: int) -> None:
        """Record what the endpoint was proven to do."""
        value = pack_proof(proof)
        self._server.ask(self._server.client.set, endpoint_proof(endpoint), value, ex=keep_s)
