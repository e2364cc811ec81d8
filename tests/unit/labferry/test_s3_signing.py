"""Is a request signed as botocore signs it?"""

from datetime import datetime
from typing import cast

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from labferry.s3 import signing
from labferry.s3.signing import Signer

HOST = "s3.example:8333"
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda key: not key.startswith("/")
)


def authorization(head: bytes) -> str:
    lines = head.decode().split("\r\n")
    return next(line for line in lines if line.startswith("authorization: "))[15:]


def as_signed(credentials: Credentials) -> signing.Credentials:
    """What botocore hands on to be signed with; its stubs say that a part may be missing."""
    return cast(signing.Credentials, credentials.get_frozen_credentials())


def by_botocore(head: bytes, body: bytes, credentials: Credentials) -> str:
    """Return what botocore writes for the same request at the same instant."""
    first, *lines = head.decode().split("\r\n\r\n")[0].split("\r\n")
    target = first.split(" ")[1]
    headers = dict(line.split(": ", 1) for line in lines)
    kept = {n: v for n, v in headers.items() if n not in {"authorization", "content-length"}}
    request = AWSRequest("PUT", f"http://{HOST}{target}", kept, body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = S3SigV4Auth(credentials, "s3", "eu-central-1")
    scope = signer.credential_scope(request)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signature = signer.signature(text, request)
    names = signer.signed_headers(signer.headers_to_sign(request))
    return (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )


@pytest.mark.parametrize("token", [None, "session/token=="])
@pytest.mark.parametrize("signs_payload", [True, False])
@given(key=KEYS, body=st.binary(max_size=20))
def test_a_put_is_signed_as_botocore_signs_it(
    token: str | None, signs_payload: bool, key: str, body: bytes
) -> None:
    credentials = Credentials("user", "secret", token)
    signer = Signer(HOST, "eu-central-1", signs_payload=signs_payload)
    frozen = as_signed(credentials)
    headers = {"if-none-match": "*", "x-amz-meta-labferry-attempt": "t"}
    head = signer.put(f"/lab-bucket/{key}", {}, headers, body, frozen)
    assert authorization(head) == by_botocore(head, body, credentials)


@given(upload_id=st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=30))
def test_a_part_is_signed_as_botocore_signs_it(upload_id: str) -> None:
    credentials = Credentials("user", "secret")
    signer = Signer(HOST, "eu-central-1", signs_payload=False)
    query = {"uploadId": upload_id, "partNumber": "7"}
    head = signer.put("/b/k", query, {}, b"x", as_signed(credentials))
    assert authorization(head) == by_botocore(head, b"x", credentials)


def test_an_upload_id_arrives_as_it_was_given() -> None:
    signer = Signer(HOST, "eu-central-1", signs_payload=False)
    frozen = as_signed(Credentials("user", "secret"))
    head = signer.put("/b/k", {"uploadId": "a+b/c=&d%20é"}, {}, b"", frozen)
    target = head.split(b" ")[1].decode()
    assert target == "/b/k?uploadId=a%2Bb%2Fc%3D%26d%2520%C3%A9"


def test_a_new_secret_is_used_at_once() -> None:
    signer = Signer(HOST, "eu-central-1", signs_payload=False)
    heads = [
        signer.put("/b/k", {}, {}, b"", as_signed(Credentials("user", secret)))
        for secret in ("one", "two")
    ]
    signed = [authorization(head).rpartition("=")[2] for head in heads]
    assert signed[0] != signed[1]
    for head, secret in zip(heads, ("one", "two"), strict=True):
        assert authorization(head) == by_botocore(head, b"", Credentials("user", secret))


def test_the_date_is_the_one_that_is_signed() -> None:
    signer = Signer(HOST, "eu-central-1", signs_payload=False)
    head = signer.put("/b/k", {}, {}, b"", as_signed(Credentials("u", "s"))).decode()
    date = head.split("x-amz-date: ")[1][:16]
    datetime.strptime(date, "%Y%m%dT%H%M%SZ")  # noqa: DTZ007  its Z says it
    assert f"Credential=u/{date[:8]}/eu-central-1/s3/aws4_request" in head
