"""How does awscrt's S3Client copy a folder, driven bare? The engine of aws-cli v2.

Usage: python -m benchmarks.bare_crt FOLDER ENDPOINT_URL BUCKET PREFIX
"""

import os
import sys
import threading
from pathlib import Path
from urllib.parse import quote, urlsplit

from awscrt.auth import AwsCredentialsProvider
from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import (
    ClientBootstrap,
    ClientTlsContext,
    DefaultHostResolver,
    EventLoopGroup,
    TlsConnectionOptions,
    TlsContextOptions,
)
from awscrt.s3 import (
    S3ChecksumAlgorithm,
    S3ChecksumConfig,
    S3ChecksumLocation,
    S3Client,
    S3RequestTlsMode,
    S3RequestType,
    create_default_s3_signing_config,
)

AT_ONCE = 16


def main(folder: Path, endpoint_url: str, bucket: str, prefix: str) -> None:
    """Put every file below the folder, CRC64NVME as trailer; no retries of our own."""
    url = urlsplit(endpoint_url)
    group = EventLoopGroup()
    bootstrap = ClientBootstrap(group, DefaultHostResolver(group))
    credentials = AwsCredentialsProvider.new_static(
        os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    )
    secured = _secured() if url.scheme == "https" else None
    client = S3Client(
        bootstrap=bootstrap,
        region="us-east-1",
        signing_config=create_default_s3_signing_config(
            region="us-east-1", credential_provider=credentials
        ),
        tls_mode=S3RequestTlsMode.ENABLED if secured else S3RequestTlsMode.DISABLED,
        tls_connection_options=secured,
    )
    slots = threading.Semaphore(AT_ONCE)
    pending = []
    for path in sorted(item for item in folder.rglob("*") if item.is_file()):
        slots.acquire()
        key = quote(f"/{bucket}/{prefix}/{path.relative_to(folder)}")
        headers = [("Host", url.netloc), ("Content-Length", str(path.stat().st_size))]
        request = client.make_request(
            type=S3RequestType.PUT_OBJECT,
            request=HttpRequest("PUT", key, HttpHeaders(headers)),
            send_filepath=str(path),
            checksum_config=S3ChecksumConfig(
                algorithm=S3ChecksumAlgorithm.CRC64NVME, location=S3ChecksumLocation.TRAILER
            ),
            on_done=lambda **_: slots.release(),
        )
        pending.append(request.finished_future)
    for future in pending:
        future.result()


def _secured() -> TlsConnectionOptions:
    options = TlsContextOptions()
    options.override_default_trust_store_from_path(ca_filepath=os.environ["AWS_CA_BUNDLE"])
    # The stubs name the class of the options that the context is made from.
    return ClientTlsContext(options).new_connection_options()  # type: ignore[return-value]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5])
