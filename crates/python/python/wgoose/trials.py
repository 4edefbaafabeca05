"""The process in which `wgoose.tune` runs its trials. Its arguments are those of `wgoose dev trial`."""

import argparse
import signal

from .wgoose import _run_trials  # type: ignore[import-not-found]


def main() -> None:
    """Runs trials as standard input asks for them, until it ends."""
    # The parent says what an interruption means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="wgoose.trials", description=__doc__)
    parser.add_argument("group", choices=["dev"])
    parser.add_argument("verb", choices=["trial"])
    parser.add_argument("model")
    parser.add_argument("--reference", required=True)
    parser.add_argument("--multiprocessors", type=int, required=True)
    parser.add_argument("--device")
    cache = parser.add_mutually_exclusive_group(required=True)
    cache.add_argument("--cache-dir")
    cache.add_argument("--no-cache", action="store_true")
    args = parser.parse_args()
    _run_trials(args.model, args.reference, args.multiprocessors, args.device, args.cache_dir)
