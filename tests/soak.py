"""Break labferry for as long as asked: `make soak SOAK_S=3600`.

Round by round with another seed: the chaos on real servers, then the model check. The first failure
ends it, with its seed; LABFERRY_SEED begins with that one.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence

CHAOS = ("tests/chaos/test_s3_chaos.py", "-k", "under_chaos")
MODEL = ("tests/chaos/test_model.py",)
#: What a round says of itself begins with one of these.
SUMMARY = ("LABFERRY_SEED", "{")
SEEDS = 2**31


def round_of(test: Sequence[str], seed: int, options: Sequence[str]) -> bool:
    """Run one test under one seed, and print what it said; return whether it held."""
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-s", *test, *options],
        env={**os.environ, "LABFERRY_SEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    held = done.returncode == 0
    took_s = time.monotonic() - began_s
    print(f"seed {seed}: {test[0]} {'held' if held else 'FAILED'}, {took_s:.0f} s")
    lines = done.stdout.splitlines()
    told = [line for line in lines if line.startswith(SUMMARY) or " requests: " in line]
    print("\n".join(f"  {line[:300]}" for line in told if '"event"' not in line), flush=True)
    if not held:
        print(done.stdout, done.stderr, sep="\n")
        print(f"Again: LABFERRY_SEED={seed} make test ARGS='{' '.join(test)}'")
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    arguments, options = parser.parse_known_args()
    seed = int(os.environ.get("LABFERRY_SEED") or secrets.randbelow(SEEDS))
    until_s, rounds = time.monotonic() + arguments.seconds, 0
    while not rounds or time.monotonic() < until_s:
        for test in (CHAOS, MODEL):
            if not round_of(test, seed, options):
                return 1
        rounds, seed = rounds + 1, (seed + 1) % SEEDS
    print(f"{rounds} rounds held, of chaos and of the model each.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
