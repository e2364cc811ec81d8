"""What can go wrong, as one tree?

LabferryError
├── SettingsError            a setting is missing or wrong: name it and say what it must be
├── BadName                  a name that no key can hold or that leaves its run
├── MalformedMessage         a message or record that cannot be decoded
├── LedgerError              the ledger refused or did not answer
│   ├── LedgerUnavailable    nothing is known about what was asked
│   └── Fenced               a newer token or no lease: stop, touch nothing
├── BrokerUnavailable        a wake-up could not be published; the sweep will do it
├── StoreError               the object store refused or did not answer
│   └── BadListing           a listing whose cursor or entries cannot be trusted
├── SourceError              the file or share cannot be read
│   ├── SourceChanged        the file is not what was settled
│   ├── SourceVanished       the file is not there any more
│   ├── SourceRefused        not a regular file, or a link out of the run
│   └── ShareUnavailable     the root is absent or empty: nothing may be concluded
├── ObjectConflict           another object stands under our key
├── ChecksumMismatch         what the server attests is not what was read
├── SidecarMismatch          a list beside the data says otherwise than its bytes
├── WeakEvidence             the endpoint cannot prove as much as the settings demand
├── NotDelivered             a sink did not take an alert or event; it is tried again
├── InboxUnavailable         nothing is known about what was asked of an inbox
├── ChangedEvent             another content of a generation that was announced before
├── ServiceFailed            an embedded server did not come up
├── Refused                  labferry will not do this; the sentence says what would let it
└── NotFound                 no such run or file

Facts are attributes; the message is the sentence an operator reads and ends in the next step.
"""

_NOT_FOUND = 404


class LabferryError(Exception):
    """Something went wrong; the subclasses say what."""


class SettingsError(LabferryError):
    """A setting is missing or wrong."""

    def __init__(self, *, field: str, why: str, step: str) -> None:
        self.field = field
        self.why = why
        self.step = step
        super().__init__(f"{field}: {why}. {step}")


class BadName(LabferryError):
    """A name that no key can hold or that leaves its run."""

    def __init__(self, *, name: str, why: str) -> None:
        self.name = name
        super().__init__(f"the name {name!r} cannot be used: {why}. Rename it at the source.")


class MalformedMessage(LabferryError):
    """A message or record that cannot be decoded."""

    def __init__(self, *, what: str, why: str) -> None:
        self.what = what
        super().__init__(f"{what} cannot be decoded: {why}. Check the versions that wrote it.")


class LedgerError(LabferryError):
    """The ledger refused or did not answer."""


class LedgerUnavailable(LedgerError):
    """Nothing is known about what was asked of the ledger."""

    def __init__(self, *, url: str, why: str, mend: str | None = None) -> None:
        """`mend` is what lets it be used, where it is there and cannot be."""
        self.url = url
        self.mend = mend
        step = mend or "Check [ledger] url and that the server runs; nothing is lost, try again."
        what = "cannot be used" if mend else "did not answer"
        super().__init__(f"the ledger at {url} {what} ({why}). {step}")


class Fenced(LedgerError):
    """A newer token or no lease: stop, touch nothing."""

    def __init__(self, *, file: str, token: int) -> None:
        self.file = file
        self.token = token
        super().__init__(f"the lease on {file} (token {token}) is lost; another worker has it.")


class BrokerUnavailable(LabferryError):
    """A wake-up could not be published; the sweep will do it."""

    def __init__(self, *, why: str) -> None:
        super().__init__(
            f"the broker did not take a message ({why}). "
            "Check [broker] url; the sweep publishes it again."
        )


class StoreError(LabferryError):
    """The object store refused or did not answer.

    `status` is None and `code` is the exception's name when there was no answer at all.
    """

    def __init__(
        self,
        *,
        operation: str,
        key: str,
        code: str,
        status: int | None = None,
        retry_after_s: float | None = None,
        detail: str = "",
    ) -> None:
        self.operation = operation
        self.key = key
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s
        self.detail = detail
        answer = f"answered {status} {code}" if status else f"did not answer ({code})"
        super().__init__(f"{operation} {key}: the object store {answer}. {detail}".rstrip())

    @property
    def is_absence(self) -> bool:
        """Whether the object, or what holds it, is not there."""
        return self.status == _NOT_FOUND


class BadListing(StoreError):
    """A listing whose cursor or entries cannot be trusted."""


class SourceError(LabferryError):
    """The file or share cannot be read; `errno_name` is such as 'EACCES'."""

    def __init__(self, *, path: str, errno_name: str = "", why: str = "") -> None:
        self.path = path
        self.errno_name = errno_name
        self.why = why
        super().__init__(f"{path}: {why or errno_name}. {self.step}")

    step = "Check that the account labferry runs under may read it."


class SourceChanged(SourceError):
    """The file is not what was settled."""

    step = "It waits until it is at rest again; nothing is to be done."


class SourceVanished(SourceError):
    """The file is not there any more."""

    step = "The next scan lists it as vanished if it does not come back."


class SourceRefused(SourceError):
    """Not a regular file, or a link out of the run."""

    step = "labferry moves regular files only; it is listed and left where it is."


class ShareUnavailable(SourceError):
    """The root is absent or empty: nothing may be concluded."""

    step = "Check the mount; labferry concludes nothing from an absent or empty root."


class ObjectConflict(LabferryError):
    """Another object stands under our key."""

    def __init__(self, *, key: str, why: str) -> None:
        self.key = key
        super().__init__(
            f"{key} holds another object ({why}). labferry never overwrites: "
            "compare the two, then move one away and requeue."
        )


class ChecksumMismatch(LabferryError):
    """What the server attests is not what was read."""

    def __init__(self, *, key: str, ours: str, theirs: str) -> None:
        self.key = key
        self.ours = ours
        self.theirs = theirs
        super().__init__(
            f"{key}: read {ours}, the server holds {theirs}. "
            "Keep the source; check memory and network of the worker."
        )


class SidecarMismatch(LabferryError):
    """A list beside the data says otherwise than its bytes; `theirs` is what the list says."""

    def __init__(self, *, key: str, ours: str, theirs: str, list: str) -> None:
        self.key = key
        self.ours = ours
        self.theirs = theirs
        self.list = list
        super().__init__(
            f"{key}: read {ours}, but {list} says {theirs}. "
            "Find out which of the two is damaged, copy it anew, then requeue the file."
        )


class WeakEvidence(LabferryError):
    """The endpoint cannot prove as much as the settings demand."""

    def __init__(self, *, key: str, level: str, minimum: str) -> None:
        self.key = key
        self.level = level
        self.minimum = minimum
        super().__init__(
            f"{key}: this endpoint reaches evidence level {level}, the settings demand {minimum}. "
            "Set [store] evidence_minimum lower, or use an endpoint that checks checksums."
        )


class NotDelivered(LabferryError):
    """A sink did not take an alert or an event; it is tried again.

    `answered` is False where the sink may have taken it all the same; `status` is HTTP's, or a
    program's.
    """

    def __init__(
        self,
        *,
        sink: str,
        why: str,
        answered: bool = True,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.sink = sink
        self.why = why
        self.answered = answered
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(f"{sink}: {why}. Check [alerts] and [events]; it is kept and sent again.")


class InboxUnavailable(LabferryError):
    """Nothing is known about what was asked of an inbox."""

    def __init__(self, *, place: str, why: str) -> None:
        self.place = place
        super().__init__(
            f"the inbox at {place} did not answer ({why}). Check the disk or server it is on; "
            "nothing is lost, try again."
        )


class ChangedEvent(LabferryError):
    """Another content of a generation that was announced before."""

    def __init__(self, *, subject: str, known: str, came: str) -> None:
        self.subject = subject
        super().__init__(
            f"{subject} was announced before with another content ({known[:12]}, now {came[:12]}). "
            "It is not worked on: find out which is right, then see `labferry consume --list`."
        )


class ServiceFailed(LabferryError):
    """An embedded server did not come up."""

    def __init__(self, *, service: str, why: str, last_words: str) -> None:
        self.service = service
        super().__init__(
            f"{service} did not come up: {why}. Its last words:\n{last_words}\n"
            "Check free space and memory, and that another process does not hold its folder."
        )


class Refused(LabferryError):
    """labferry will not do this; the sentence says what would let it."""

    def __init__(self, *, what: str, why: str, step: str) -> None:
        super().__init__(f"{what}: {why}. {step}")


class NotFound(LabferryError):
    """No such run or file."""

    def __init__(self, *, what: str, step: str) -> None:
        super().__init__(f"{what} is not known. {step}")
