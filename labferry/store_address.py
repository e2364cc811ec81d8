"""Do bucket, endpoint and prefix name a place that S3 can be asked for?"""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

#: What an account or access point may be called, as botocore checks it before any request.
_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,255}|arn:[a-z-]+:(s3|s3-object-lambda|s3-outposts):\S+")
#: Leaves a path of the source most of the 1,024 bytes that a key may have.
_PREFIX_MAX_BYTES = 512


def check_bucket(name: str) -> str:
    """Return the name of a bucket, or the ARN of an access point. Raises: ValueError."""
    if not _BUCKET.fullmatch(name):
        raise ValueError(
            "it should be the bucket's name alone, such as my-lab-runs: letters, digits, '.', "
            "'_' and '-'; what stands before its objects is `prefix`"
        )
    return name


def check_endpoint(url: str) -> str:
    """Return the URL of an S3 endpoint. Raises: ValueError."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError("a password stands in it; credentials come from the environment")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("it should be such as https://s3.example.org; leave it out for AWS")
    _ = parts.port  # says what is wrong with it
    return url


def check_prefix(text: str) -> str:
    """Return a prefix without slashes at its ends. Raises: ValueError."""
    prefix = text.strip("/")
    if prefix and any(part in {"", ".", ".."} for part in prefix.split("/")):
        raise ValueError("no part between slashes may be empty, `.` or `..`")
    if not prefix.isprintable():
        raise ValueError("it has characters that cannot be printed")
    if len(prefix.encode()) > _PREFIX_MAX_BYTES:
        raise ValueError(f"it is longer than {_PREFIX_MAX_BYTES} bytes")
    return prefix


Bucket = Annotated[str, AfterValidator(check_bucket)]
Endpoint = Annotated[str, AfterValidator(check_endpoint)]
Prefix = Annotated[str, AfterValidator(check_prefix)]
