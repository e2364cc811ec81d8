"""What may not be written? The real server is told so by its bucket's policy."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

from ops.embedded import Weed


@contextmanager
def denied(weed: Weed, prefix: str) -> Iterator[None]:
    """Deny writing below a prefix, '' for all of the bucket."""
    client = boto3.client(
        "s3",
        endpoint_url=weed.endpoint,
        aws_access_key_id=weed.access_key,
        aws_secret_access_key=weed.secret_key,
        region_name="us-east-1",
    )
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": ["s3:PutObject"],
        "Resource": [f"arn:aws:s3:::{weed.bucket}/{prefix}*"],
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    client.put_bucket_policy(Bucket=weed.bucket, Policy=json.dumps(policy))
    try:
        yield
    finally:
        client.delete_bucket_policy(Bucket=weed.bucket)
        client.close()
