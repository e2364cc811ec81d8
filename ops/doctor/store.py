"""Does the endpoint do what labferry relies on, tried with right and wrong requests?"""

from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime

from labferry.errors import SettingsError, StoreError
from labferry.identity import Layout
from labferry.records import Level, Proof
from labferry.s3.bucket import Bucket
from labferry.s3.probe import prove
from labferry.s3.store import open_store
from labferry.settings import StoreSettings
from ops.doctor.finding import Area, Finding, Verdict
from ops.ready import check_bucket

STORE = Area("bucket")
#: Servers refuse requests dated more than 15 minutes off.
SKEW_WARNING_S, SKEW_BAD_S = 60.0, 600.0
_NO_RULES = "NoSuchLifecycleConfiguration"
_READ_BACK = "Every object is read back; cheaper: an endpoint that checks CRC64NVME."


def look_at_store(settings: StoreSettings, wall_s: Callable[[], float]) -> Iterator[Finding]:
    """Yield what is right and wrong with [store]; scratch objects below `probe/` are removed.

    `wall_s` is this host's clock.
    """
    access = look_at_access(settings)
    yield access
    if access.verdict is not Verdict.GOOD:
        return
    bucket = Bucket(settings)
    yield from _clock(bucket, wall_s)
    yield from _probes(settings)
    yield _uploads(bucket)
    yield _abandoned(bucket)


def look_at_access(settings: StoreSettings) -> Finding:
    """Return whether the bucket is there for these credentials."""
    try:
        check_bucket(settings)
    except SettingsError as error:
        return STORE.bad("access", f"{error.field}: {error.why}", error.step)
    except StoreError as error:
        return STORE.unknown("access", str(error), "Check [store] endpoint_url and the network.")
    where = settings.endpoint_url or f"AWS in {settings.region}"
    return STORE.good("access", f"{settings.bucket} at {where} can be listed")


def _clock(bucket: Bucket, wall_s: Callable[[], float]) -> Iterator[Finding]:
    try:
        with bucket.asking("HeadBucket", "") as clients:
            answer = clients.calls.head_bucket(Bucket=bucket.name)
        dated = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (StoreError, KeyError, ValueError):
        return  # HeadBucket may be refused, and nothing says that an answer is dated
    ahead_s = wall_s() - dated.timestamp()
    seen = f"this host's is {ahead_s:+.0f} s from the endpoint's"
    if abs(ahead_s) > SKEW_BAD_S:
        yield STORE.bad("clock", f"{seen}; requests are refused", "Set this host's clock by NTP.")
    elif abs(ahead_s) > SKEW_WARNING_S:
        yield STORE.warning("clock", seen, "Set this host's clock by NTP.")
    else:
        yield STORE.good("clock", "it agrees with this host's")


def _probes(settings: StoreSettings) -> Iterator[Finding]:
    layout = Layout(settings.prefix)
    store = open_store(settings)
    try:
        proof = prove(store, layout, now_ms=0)
        left = any(True for _ in store.list_objects(layout.probe("")))
    except StoreError as error:
        yield STORE.bad(
            "rights",
            f"a right request failed: {error}",
            "Let the account list, read and write the bucket, use multipart uploads and abort them "
            "(with SSE-KMS: kms:GenerateDataKey and kms:Decrypt).",
        )
        return
    yield STORE.good("rights", "objects can be written and read, at once and in parts")
    if left:
        yield STORE.warning(
            "rights",
            f"scratch objects stay below {layout.probe('')}",
            "Let the account delete there, and only there; or let a lifecycle rule do it.",
        )
    yield from _checksums(proof)
    yield from _conditions(proof)
    yield _evidence(proof, Level(settings.evidence_minimum))


def _checksums(proof: Proof) -> Iterator[Finding]:
    if not proof.refuses_wrong_checksum:
        yield STORE.warning("checksums", "a wrong CRC64NVME is accepted", _READ_BACK)
    elif not (proof.attests_checksum and proof.full_object):
        yield STORE.warning(
            "checksums",
            "a wrong CRC64NVME is refused; HEAD does not show the right one",
            _READ_BACK,
        )
    else:
        yield STORE.good("checksums", "a wrong CRC64NVME is refused, the right one is shown")


def _conditions(proof: Proof) -> Iterator[Finding]:
    ignoring = [
        name
        for name, obeyed in (
            ("Put", proof.conditional_put),
            ("Complete", proof.conditional_complete),
        )
        if not obeyed
    ]
    if ignoring:
        yield STORE.warning(
            "conditions",
            f"If-None-Match is ignored on {' and '.join(ignoring)}",
            "labferry asks what is there just before; two writers at that instant are not told "
            "apart. Prefer an endpoint that obeys conditional writes, or turn versioning on.",
        )
    else:
        yield STORE.good("conditions", "a second create is refused, at once and in parts")


def _evidence(proof: Proof, minimum: Level) -> Finding:
    reached = {
        kind: proof.reach(in_parts=parts) for kind, parts in (("small", False), ("large", True))
    }
    seen = ", ".join(f"level {level} for {kind} files" for kind, level in reached.items())
    if max(reached.values()) > minimum:  # A is the strongest
        return STORE.bad(
            "evidence",
            f"{seen}; at least {minimum} is asked for",
            "Lower [store] evidence_minimum, or use an endpoint that checks checksums.",
        )
    return STORE.good("evidence", seen)


def _uploads(bucket: Bucket) -> Finding:
    try:
        with bucket.asking("ListMultipartUploads", "") as clients:
            clients.calls.list_multipart_uploads(Bucket=bucket.name, MaxUploads=1)
    except StoreError as error:
        return STORE.warning(
            "uploads",
            f"open multipart uploads cannot be listed ({error.code})",
            "Allow s3:ListBucketMultipartUploads: what a crash left open is found by it.",
        )
    return STORE.good("uploads", "open multipart uploads can be listed")


def _abandoned(bucket: Bucket) -> Finding:
    step = (
        "Add a lifecycle rule AbortIncompleteMultipartUpload, later than your longest upload; "
        "a week, say."
    )
    try:
        with bucket.asking("GetBucketLifecycleConfiguration", "") as clients:
            answer = clients.calls.get_bucket_lifecycle_configuration(Bucket=bucket.name)
    except StoreError as error:
        if error.code == _NO_RULES:
            return STORE.warning("lifecycle", "no rule ends abandoned uploads", step)
        return STORE.warning("lifecycle", f"the rules cannot be read ({error.code})", step)
    if any("AbortIncompleteMultipartUpload" in rule for rule in answer.get("Rules", [])):
        return STORE.good("lifecycle", "a rule ends abandoned uploads")
    return STORE.warning("lifecycle", "no rule ends abandoned uploads", step)
