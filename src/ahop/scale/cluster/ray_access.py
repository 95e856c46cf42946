"""Ray runs whatever is sent to its ports: they must be of this machine alone, or ask for a token."""

import os
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from ahop.errors import UnsupportedError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
# Ray's switch for machines that are no cluster, read when it is imported: all of it listens on the loopback.
ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
MEND = (
    f"Set `{MODE}=token` for this process and for all machines of the cluster, which need the same token "
    "(`ray get-auth-token --generate`)."
)


def refuse_open_ray(address: str | None, environment: Mapping[str, str] = os.environ) -> None:
    """Raise `UnsupportedError` where strangers could run code.

    Args:
        address: of a Ray cluster; None if Ray is started here.
    """
    mode = environment.get(MODE, "").lower()
    if address is None:
        # Ray asks for a token if it is not told otherwise.
        if mode == "disabled" and environment.get(ALONE) != "0":
            raise UnsupportedError(
                f"`{MODE}=disabled`, and Ray was imported before it could be told to listen on this machine alone: "
                "whoever reaches its ports could run code here. "
                f"Unset `{MODE}`, or set `{ALONE}=0` before Ray is imported."
            )
        return
    if is_on_this_machine(address) or (mode in ("", "token") and _has_token(environment)):
        return
    raise UnsupportedError(f"Whoever reaches the ports of the Ray at `{address}` can run code on its machines. {MEND}")


def is_on_this_machine(address: str) -> bool:
    """True if an address such as `ray://127.0.0.1:10001`, `127.0.0.1:6379` or `local` is of the loopback."""
    host = address.rsplit("//", 1)[-1].rsplit(":", 1)[0].strip("[]")
    if host in ("local", "localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listen_on_this_machine(environment: "os._Environ[str]" = os.environ) -> None:
    """To be called before Ray is imported; has no effect after."""
    if "ray" not in sys.modules:
        environment.setdefault(ALONE, "0")


def _has_token(environment: Mapping[str, str]) -> bool:
    named = environment.get(TOKEN_PATH)
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    return bool(environment.get(TOKEN)) or file.is_file()
