"""A server that speaks S3, for as long as it is asked: what is sent over the wire is what the real one gets."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import Request, urlopen

# Who asks must sign, but this server believes every signature.
KEYS = {"aws_access_key_id": "someone", "aws_secret_access_key": "nothing", "aws_region": "us-east-1"}


@contextmanager
def server(bucket: str) -> Iterator[dict[str, str]]:
    """The storage options of a new server on this machine, which has this bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make(f"http://127.0.0.1:{port}/{bucket}")
        yield {"aws_endpoint": f"http://127.0.0.1:{port}", "allow_http": "true", **KEYS}
    finally:
        process.kill()
        process.wait()


def _make(address: str, patience: float = 60.0) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            urlopen(Request(address, method="PUT"), timeout=patience).close()
            return
        except URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
