"""Do the servers that the settings name answer as they must, before anything is started?"""

from contextlib import suppress

from labferry.errors import LedgerUnavailable, SettingsError, StoreError
from labferry.identity import Layout
from labferry.ledger import open_ledger
from labferry.s3.store import open_store
from labferry.settings import LedgerSettings, StoreSettings

_FORBIDDEN = 403
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "CredentialRetrievalError"})
_WHERE_CREDENTIALS = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, for an account that may "
    "list, read and write the bucket."
)


def check_ledger(settings: LedgerSettings) -> None:
    """Ask the ledger for its clock. Raises: LedgerUnavailable."""
    open_ledger(settings).now_ms()


def check_format(settings: LedgerSettings) -> None:
    """Make sure that this version reads the ledger's records; one that is away is waited for.

    Raises: Refused.
    """
    with suppress(LedgerUnavailable):
        check_ledger(settings)


def check_bucket(settings: StoreSettings) -> None:
    """List the bucket; it is never created.

    Raises: SettingsError when the bucket or the credentials are wrong, StoreError when the
    endpoint does not answer.
    """
    try:
        next(iter(open_store(settings).list_objects(Layout(settings.prefix).probe(""))), None)
    except StoreError as error:
        raise _named(error, settings) from error


def _named(error: StoreError, settings: StoreSettings) -> SettingsError | StoreError:
    where = settings.endpoint_url or f"AWS in {settings.region}"
    if error.code == "NoSuchBucket":
        return SettingsError(
            field="store.bucket",
            why=f"there is no bucket {settings.bucket!r} at {where}",
            step="Create it there, or set [store] bucket or LABFERRY_STORE__BUCKET; labferry "
            "creates none.",
        )
    if error.code in _NO_CREDENTIALS:
        return SettingsError(
            field="credentials", why=f"none are found for {where}", step=_WHERE_CREDENTIALS
        )
    if error.status == _FORBIDDEN:
        return SettingsError(
            field="credentials",
            why=f"{where} refuses them for the bucket {settings.bucket!r} ({error.code})",
            step=_WHERE_CREDENTIALS,
        )
    return StoreError(
        operation=error.operation,
        key=error.key,
        code=error.code,
        status=error.status,
        detail=f"Check [store] endpoint_url ({where}) and the network, then try again.",
    )
