"""What does each error mean, for how much more than one file, and why?

Data only: the first row that matches decides, on operation, status and code, never on message text.
`kind` is what the failure costs its file; `scope` and `cause` say whose breaker counts it.
docs/failures.md shows these tables. Source: research on S3 servers, botocore 1.44, Linux file
systems.
"""

from dataclasses import dataclass
from enum import StrEnum

from labferry.errors import (
    BadName,
    ChecksumMismatch,
    LabferryError,
    LedgerUnavailable,
    ObjectConflict,
    Refused,
    ShareUnavailable,
    SidecarMismatch,
    SourceChanged,
    SourceRefused,
    SourceVanished,
    WeakEvidence,
)


class Kind(StrEnum):
    """What a failure costs its file."""

    TRANSIENT = "transient"  # one attempt, repeated after a growing wait
    THROTTLED = "throttled"  # nothing: the endpoint asks for less
    ENVIRONMENT = "environment"  # nothing: no file can pass until it is mended
    SOURCE = "source"  # nothing: the file is not at rest
    PERMANENT = "permanent"  # quarantine at once: repeating cannot help
    AMBIGUOUS = "ambiguous"  # it may have worked: the server is asked before anything is repeated
    WORKER_LOST = "worker_lost"  # counted apart: the process died under the file
    UNKNOWN = "unknown"  # a small budget, then quarantine, and reported as unknown


class Scope(StrEnum):
    """Whose failure it is."""

    FILE = "file"  # this file's alone
    RUN = "run"  # its neighbours in the run most likely share it
    ENDPOINT = "endpoint"  # everybody's who uses this bucket with these credentials
    HOST = "host"  # this host's, or its mounts'


class Cause(StrEnum):
    """What stands in the way of more than one run; each has a breaker of its own."""

    CREDENTIALS = "credentials"  # refused or expired
    CLOCK = "clock"  # signatures are dated wrongly
    ENDPOINT = "endpoint"  # cannot be reached, fails underway, or is no such server
    BUCKET = "bucket"  # missing, or what it needs is
    QUOTA = "quota"  # it is full
    THROTTLE = "throttle"  # it asks for less
    SHARE = "share"  # the source cannot be read on this host
    LOCAL = "local"  # this host lacks memory, descriptors, disk, ledger or credentials

    @property
    def scope(self) -> Scope:
        """How far it reaches."""
        return Scope.HOST if self in (Cause.SHARE, Cause.LOCAL) else Scope.ENDPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table; an empty set matches anything. `cause` is None below an endpoint.

    A wait before the next attempt is `wait_s` at least.
    """

    kind: Kind
    scope: Scope
    cause: Cause | None
    why: str
    wait_s: float | None
    codes: frozenset[str]
    statuses: frozenset[int | None]
    operations: frozenset[str]

    def matches(self, operation: str, status: int | None, code: str) -> bool:
        """Whether this row speaks of such an answer."""
        return (
            (not self.operations or operation in self.operations)
            and (not self.statuses or status in self.statuses)
            and (not self.codes or code in self.codes)
        )


def _row(  # noqa: PLR0913  the fields of a row
    kind: Kind,
    of: Scope | Cause,
    codes: str,
    why: str,
    *,
    statuses: tuple[int | None, ...] = (),
    operations: frozenset[str] = frozenset(),
    wait_s: float | None = None,
) -> Row:
    return Row(
        kind=kind,
        scope=of.scope if isinstance(of, Cause) else of,
        cause=of if isinstance(of, Cause) else None,
        why=why,
        wait_s=wait_s,
        codes=frozenset(codes.split()),
        statuses=frozenset(statuses),
        operations=operations,
    )


#: Repeating one of these is not harmless: a missing answer leaves the outcome open.
CREATIONS = frozenset({"PutObject", "CreateMultipartUpload", "CompleteMultipartUpload"})
#: The bytes arrived damaged; from memory they are sent once more before that is believed.
DIGESTS = frozenset(
    ("BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch")
)
_UNDERWAY = (408, 425, 500, 502, 503, 504)
_HEADS = frozenset({"HeadObject", "HeadBucket"})
#: What an instrument, or a scanner for viruses, keeps to itself it keeps for minutes.
_KEPT_S = 300
_K, _S, _C = Kind, Scope, Cause

# fmt: off
#: What the object store's answers mean. The order is part of the table.
ANSWERS = (
    _row(_K.ENVIRONMENT, _C.LOCAL, "EMFILE ENFILE ENOBUFS ENOMEM",
         "this host has no room for one more connection; other hosts go on"),
    _row(_K.ENVIRONMENT, _C.ENDPOINT, "EndpointConnectionError ConnectTimeoutError",
         "the request never left"),
    _row(_K.ENVIRONMENT, _C.ENDPOINT, "ProxyConnectionError",
         "the request never left; often a wrong proxy setting"),
    _row(_K.ENVIRONMENT, _C.ENDPOINT, "SSLError",
         "a certificate that is not trusted does not heal; checking is never switched off"),
    _row(_K.ENVIRONMENT, _C.ENDPOINT, "PermanentRedirect AuthorizationHeaderMalformed",
         "the bucket is in another region, or the host redirects everything"),
    _row(_K.ENVIRONMENT, _C.ENDPOINT, "NotImplemented MethodNotAllowed",
         "the endpoint lacks what labferry needs: see labferry doctor"),
    _row(_K.ENVIRONMENT, _C.CREDENTIALS,
         "ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired",
         "an upload outlives its credentials and goes on with new ones"),
    _row(_K.ENVIRONMENT, _C.CREDENTIALS, "InvalidToken InvalidAccessKeyId",
         "a rotation in progress looks the same as a wrong key"),
    _row(_K.ENVIRONMENT, _C.CREDENTIALS, "SignatureDoesNotMatch",
         "a wrong secret, or a proxy that rewrites headers"),
    _row(_K.ENVIRONMENT, _C.LOCAL,
         "NoCredentialsError PartialCredentialsError CredentialRetrievalError SSOTokenLoadError",
         "this host has no usable credentials; a metadata service may be down"),
    _row(_K.ENVIRONMENT, _C.CLOCK, "RequestTimeTooSkewed",
         "the clocks of host and server differ by minutes"),
    _row(_K.TRANSIENT, _S.FILE, "RequestStalled",
         "RequestTimeTooSkewed after minutes of sending: the clock is right, the link is slow"),
    _row(_K.ENVIRONMENT, _C.BUCKET, "NoSuchBucket",
         "a wrong name or a missing set-up; labferry makes no bucket"),
    _row(_K.ENVIRONMENT, _C.BUCKET, "AccountProblem AllAccessDisabled NotSignedUp",
         "the account's owner has to act"),
    _row(_K.ENVIRONMENT, _C.BUCKET,
         "KMS.DisabledException KMS.NotFoundException KMS.InvalidStateException",
         "the key that encrypts the bucket cannot be used"),
    _row(_K.ENVIRONMENT, _C.QUOTA,
         "QuotaExceeded StorageFull XMinioStorageFull XMinioAdminBucketQuotaExceeded "
         "InsufficientStorage",
         "there is no room until somebody makes some"),
    _row(_K.ENVIRONMENT, _C.LOCAL, "FlexibleChecksumError MissingDependencyException",
         "awscrt is missing or broken on this host"),
    _row(_K.THROTTLED, _C.THROTTLE,
         "SlowDown Throttling ThrottlingException RequestLimitExceeded TooManyRequests "
         "BandwidthLimitExceeded KMS.ThrottlingException",
         "fewer requests are wanted; Retry-After is a lower bound"),
    _row(_K.AMBIGUOUS, _S.FILE, "PreconditionFailed",
         "another's object, or our own whose answer was lost: HEAD tells"),
    _row(_K.AMBIGUOUS, _S.FILE, "ConditionalRequestConflict",
         "two creations at once; what stands decides, else Put again or a new upload"),
    _row(_K.AMBIGUOUS, _S.FILE, "NoSuchUpload",
         "completed by us, ended by somebody, expired, or the wrong id: HEAD tells"),
    _row(_K.TRANSIENT, _S.FILE, "PreconditionFailed ConditionalRequestConflict NoSuchUpload",
         "the same, once the server was seen to hold no object"),
    _row(_K.TRANSIENT, _S.FILE, "OperationAborted", "another operation was in the way"),
    _row(_K.TRANSIENT, _S.FILE, "RequestTimeout", "the connection stalled while it was sent"),
    _row(_K.TRANSIENT, _S.FILE, "IncompleteBody", "a proxy or a cut connection; sent from memory"),
    _row(_K.TRANSIENT, _S.FILE, "InvalidPart", "a part was lost or replaced: list, send it again"),
    _row(_K.UNKNOWN, _C.BUCKET, "", "HEAD's answer has no body; 403 is not absence",
         statuses=(403,), operations=_HEADS),
    _row(_K.UNKNOWN, _C.CREDENTIALS, "", "HEAD's answer has no body; an expired token looks so",
         statuses=(400,), operations=_HEADS),
    _row(_K.PERMANENT, _C.BUCKET, "AccessDenied", "uploads that may not be ended stay behind: "
         "a lifecycle rule has to remove them", operations=frozenset({"AbortMultipartUpload"})),
    _row(_K.PERMANENT, _S.RUN, "AccessDenied", "a policy, or the use of the bucket's key"),
    _row(_K.PERMANENT, _S.RUN, "MetadataTooLarge", "a defect of the settings"),
    _row(_K.PERMANENT, _S.FILE, " ".join(sorted(DIGESTS)),
         "damaged twice on the way from memory: a middlebox, or the host's memory"),
    _row(_K.PERMANENT, _S.FILE,
         "EntityTooSmall InvalidArgument InvalidPartOrder InvalidRequest MalformedXML",
         "a limit of the vendor, or a defect: please report it"),
    _row(_K.PERMANENT, _S.FILE, "EntityTooLarge MaxMessageLengthExceeded",
         "the endpoint takes no file of this size"),
    _row(_K.PERMANENT, _S.FILE, "KeyTooLongError InvalidURI ParamValidationError",
         "the name cannot be a key there"),
    _row(_K.PERMANENT, _S.FILE, "InvalidObjectState ObjectLocked ObjectAlreadyInActiveTierError",
         "an object that cannot be changed stands there"),
    # What follows decides where no code did.
    _row(_K.THROTTLED, _C.THROTTLE, "", "fewer requests are wanted", statuses=(429,)),
    _row(_K.AMBIGUOUS, _S.FILE, "", "as PreconditionFailed", statuses=(409, 412),
         operations=CREATIONS),
    _row(_K.ENVIRONMENT, _C.ENDPOINT, "", "a portal, a proxy that wants a password, or no S3",
         statuses=(301, 302, 303, 307, 308, 405, 407, 501)),
    _row(_K.ENVIRONMENT, _C.CREDENTIALS, "", "as InvalidAccessKeyId", statuses=(401,)),
    _row(_K.ENVIRONMENT, _C.QUOTA, "", "there is no room", statuses=(507,)),
    _row(_K.PERMANENT, _S.RUN, "", "as AccessDenied", statuses=(403,)),
    _row(_K.PERMANENT, _S.FILE, "", "a limit on lengths, of a proxy maybe",
         statuses=(411, 413, 414)),
    _row(_K.AMBIGUOUS, _S.FILE, "", "no answer, or one that is not the store's own: HEAD tells",
         statuses=(None, 200), operations=CREATIONS),
    _row(_K.AMBIGUOUS, _C.ENDPOINT, "", "failed underway, which does not say that it was not done",
         statuses=_UNDERWAY, operations=CREATIONS),
    _row(_K.TRANSIENT, _S.FILE, "ConnectionClosedError HTTPClientError ReadTimeoutError",
         "no answer to what may be repeated"),
    _row(_K.TRANSIENT, _S.FILE, "ResponseStreamingError", "the answer's body ended early"),
    _row(_K.TRANSIENT, _S.FILE, "ResponseParserError",
         "the answer cannot be read, as with control characters in a listing"),
    _row(_K.TRANSIENT, _C.ENDPOINT, "", "the server failed underway", statuses=_UNDERWAY),
    _row(_K.TRANSIENT, _S.FILE, "", "the answer is not the store's own, or cannot be trusted",
         statuses=(200,)),
    _row(_K.TRANSIENT, _S.FILE, "", "another operation in the way, or as above, once seen undone",
         statuses=(409, 412)),
)

#: What system calls on the source, or this host's lack of something, mean; codes are errno names.
ERRNOS = (
    _row(_K.TRANSIENT, _S.FILE, "EINTR EAGAIN", "to be repeated"),
    _row(_K.TRANSIENT, _S.FILE, "EBUSY ETXTBSY EDEADLK EDEADLOCK",
         "a writer is at it; tried again after five minutes at least", wait_s=_KEPT_S),
    _row(_K.TRANSIENT, _S.FILE, "EACCES EPERM",
         "kept by a program, or not for this account; tried again after five minutes at least",
         wait_s=_KEPT_S),
    _row(_K.TRANSIENT, _S.FILE, "ESTALE", "the handle is stale: the path is opened again"),
    _row(_K.TRANSIENT, _C.SHARE, "EIO EREMOTEIO", "a medium that fails"),
    _row(_K.ENVIRONMENT, _C.SHARE,
         "ENOTCONN EHOSTDOWN EHOSTUNREACH ENETUNREACH ECONNABORTED ETIMEDOUT ENODEV",
         "the share is away, which is not the same as empty"),
    _row(_K.ENVIRONMENT, _C.LOCAL, "EMFILE ENFILE ENOMEM MemoryError", "ours, not the file's"),
    _row(_K.ENVIRONMENT, _C.LOCAL, "ENOSPC EDQUOT EROFS", "this host cannot write its own files"),
    _row(_K.PERMANENT, _S.FILE, "ENAMETOOLONG", "no name of this host's file system"),
)

#: What labferry's own errors mean, the narrower class first; the code is the one of the row.
OWN: tuple[tuple[type[LabferryError], Row], ...] = (
    (SourceChanged, _row(_K.SOURCE, _S.FILE, "source_changed", "what was sent is another file")),
    (SourceVanished, _row(_K.SOURCE, _S.FILE, "source_vanished", "renamed or removed")),
    (SourceRefused, _row(_K.PERMANENT, _S.FILE, "source_refused",
                         "a link, a folder, a FIFO, a device")),
    (ShareUnavailable, _row(_K.ENVIRONMENT, _C.SHARE, "share_unavailable",
                            "an absent root must not look like deleted files")),
    (LedgerUnavailable, _row(_K.ENVIRONMENT, _C.LOCAL, "ledger_unavailable",
                             "nobody can prove whose file it is")),
    (WeakEvidence, _row(_K.ENVIRONMENT, _C.ENDPOINT, "weak_evidence",
                        "the endpoint cannot prove as much as the settings demand")),
    (BadName, _row(_K.PERMANENT, _S.FILE, "bad_name", "no key can hold it")),
    (Refused, _row(_K.PERMANENT, _S.FILE, "refused", "nothing can be sent; the message says why")),
    (ObjectConflict, _row(_K.PERMANENT, _S.FILE, "object_conflict",
                          "another object stands there; nothing is overwritten")),
    (SidecarMismatch, _row(_K.PERMANENT, _S.FILE, "sidecar_mismatch",
                           "the file, or the list beside it, is damaged: it is not uploaded")),
    (ChecksumMismatch, _row(_K.PERMANENT, _S.FILE, "checksum_mismatch",
                            "evidence of damage: the object is kept and never verified")),
)
# fmt: on
