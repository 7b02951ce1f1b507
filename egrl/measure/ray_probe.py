"""Whether a Ray cluster answers: python -m egrl.measure.ray_probe ADDRESS; prints in one line why not, and exits
with 1.

A process of its own, because Ray waits for minutes, writes to stderr and may end its process where none answers.
"""

from __future__ import annotations

import logging
import os
import sys

TRIES = "8"
"""Ray's attempts to connect, a second each."""
TOKEN = (
    "it asks for a token: expected RAY_AUTH_MODE=token in the environment, and the token of `ray get-auth-token` on its"
    " head in ~/.ray/auth_token"
)


def main(address: str) -> int:
    """0 where the cluster lets this machine in."""
    os.environ["RAY_NUM_REDIS_GET_RETRIES"] = TRIES  # read when Ray is imported
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError) as error:
        print(TOKEN if "InvalidAuthToken" in str(error.__cause__) else " ".join(str(error).split()))
        return 1
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
