"""A board for tests: python fake_board.py MODE [ARGUMENT]. Its latency is a pure function of the mapping.

Each mode misbehaves in its own way, on some mappings only (those whose digest is divisible by three) unless it says
"always"; FAKE_BOARD_FOLDER is where it may keep what it must remember across restarts.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "well"
ARGUMENT = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
FOLDER = os.environ.get("FAKE_BOARD_FOLDER", ".")


def main() -> None:
    if MODE == "exit-at-once":
        print("no such device", file=sys.stderr)
        raise SystemExit(3)
    if MODE == "slow-start":
        time.sleep(ARGUMENT)
    if MODE == "talks-first":
        print("hello, I am a board\n{not json\n" + json.dumps({"id": 0, "latency_s": 1.0}))
    for line in sys.stdin:
        request = json.loads(line)
        text = json.dumps(request["mapping"], sort_keys=True)
        number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        answer(request["id"], text, number)
        sys.stdout.flush()


def latency(text: str) -> float:
    """Between 1 and 2 ms: the share of tensors that lie in the slowest memory."""
    places = [text.count(f'"{memory}"') for memory in ("dram", "llc", "sram")]
    return 1e-3 * (1.0 + (places[0] + 0.3 * places[1]) / max(1, sum(places)))


def say(**fields: object) -> None:
    print(json.dumps(fields))


def answer(number: int, text: str, digest: int) -> None:
    good = {"id": number, "latency_s": latency(text)}
    odd = digest % 3 == 0
    if MODE == "profile":  # of all ops but the last
        nodes = [row["node"] for row in json.loads(text)]
        share = good["latency_s"] / len(nodes)
        say(**good, op_seconds={node: share * (1 + k % 2) / 2 for k, node in enumerate(nodes[:-1])})
    elif MODE == "sleep":
        time.sleep(ARGUMENT)
        say(**good)
    elif MODE == "noise":
        say(id=number, latency_s=latency(text) * max(0.1, random.gauss(1.0, ARGUMENT)))
    elif MODE == "crash-always" or (MODE == "crash" and odd):
        print("segmentation fault", file=sys.stderr)
        os._exit(139)
    elif MODE == "crash-once":
        marker = os.path.join(FOLDER, f"crashed-{digest}")
        if odd and not os.path.exists(marker):
            open(marker, "w").close()
            os._exit(1)
        say(**good)
    elif MODE == "dies-after":
        marker = os.path.join(FOLDER, "answers")
        with open(marker, "a") as stream:
            stream.write(".")
        if os.path.getsize(marker) > ARGUMENT:
            os._exit(7)
        say(**good)
    elif MODE == "hang" and odd:
        time.sleep(3600)
    elif MODE == "garbage" and odd:
        print("\x00\x01 latency: fine?")
        say(id=number, verdict="fast")
    elif MODE == "half-line" and odd:
        sys.stdout.write(json.dumps(good)[:-5])
        sys.stdout.flush()
        os._exit(0)
    elif MODE == "nan" and odd:
        print(f'{{"id": {number}, "latency_s": NaN}}')
    elif MODE == "negative" and odd:
        say(id=number, latency_s=-1.0)
    elif MODE == "megabyte":
        sys.stderr.write("x" * 2**20)
        print("y" * 2**20)
        for _ in range(2**14):
            print("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde")
        say(**good)
    elif MODE == "out-of-order":
        say(id=number + 1, latency_s=1e-9)
        say(id=number - 1, latency_s=1e-9)
        say(**good)
    elif MODE == "duplicates":
        say(**good)
        say(id=number, latency_s=1e-9)
    elif MODE == "error" and odd:
        say(id=number, error="does not fit")
    elif MODE == "invalid" and odd:
        say(id=number, invalid=True, epsilon=0.25)
    elif MODE == "samples":
        say(id=number, latency_s=[latency(text) * factor for factor in (0.99, 1.0, 1.5)])
    elif MODE == "deaf":
        time.sleep(3600)
    else:
        say(**good)


main()
