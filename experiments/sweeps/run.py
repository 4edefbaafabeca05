"""Tunes a model anew several times and holds each plan against others.

`run.py --wgoose BINARY --commit HASH --out FOLDER MODEL`. Each sweep is a process of its own, without a plan in use or
anything that another has cached. Its plan is benched by turns with the default and, where it is given, one made by
hand. Lines are appended to `sweeps.jsonl` and `bench-plans.jsonl` of the folder as results come; what is there is not
run again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROMPTS = "32,128,512,2048,2500"
TOKENS = 256
ROUNDS = 3  # one plan after the other, and again
WITHIN = 3.0  # of what a plan's evidence says, in per cent
OF_HAND = 0.97
SLOWER = 1.01
WALL = {"normal": 300.0}  # seconds, by effort


def append(path: Path, record: dict) -> None:
    """Appends a line, and has it written to the disk."""
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def lines(path: Path) -> list[dict]:
    """The records of a file that may not be there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Sweeps:
    """Sweeps of one model on one device."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.out: Path = given.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.model = str(given.model.resolve())
        self.hand = str(given.hand.resolve()) if given.hand else None

    def wgoose(self, *arguments: str, home: Path) -> str:
        """Runs a command with folders of its own; what it prints."""
        folders = {"WGOOSE_DATA_DIR": str(home / "data"), "WGOOSE_CACHE_DIR": str(home / "cache")}
        device = ["--device", self.given.device] if self.given.device else []
        command = [str(self.given.wgoose.resolve()), *arguments, *device]
        with (home / "stderr.txt").open("a") as said:
            return subprocess.run(
                command, env=os.environ | folders, stdout=subprocess.PIPE, stderr=said, text=True, check=True
            ).stdout

    def sweep(self, run: str) -> Path:
        """One sweep; its plan."""
        home = self.out / run
        home.mkdir(exist_ok=True)
        plan = home / "tuned.ron"
        begun = time.monotonic()
        self.wgoose("tune", self.model, "--fresh", "--effort", self.given.effort, "--out", str(plan), home=home)
        wall = time.monotonic() - begun
        told = json.loads(self.wgoose("plans", "show", str(plan), "--json", home=home))
        record = {
            "run": run,
            "by": self.given.commit,
            "day": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "device": f"{told['device']['adapter']}, {told['device']['driver']}",
            "beside": self.given.beside,
            "model": self.given.model.name,
            "begins_with": "no plan in use",
            "effort": self.given.effort,
            "wall_s": round(wall, 1),
            "evidence": told["evidence"]["scenarios"] if told["evidence"] else [],
        }
        append(self.out / "sweeps.jsonl", record)
        return plan

    def bench(self, run: str, plans: dict[str, str]) -> list[dict]:
        """Holds plans against each other, by turns."""
        home = self.out / run
        records = []
        for round_ in range(1, ROUNDS + 1):
            for arm, plan in plans.items():
                report = home / "bench.jsonl"
                report.unlink(missing_ok=True)
                common = ["bench", self.model, "--plan", plan, "--out-record", str(report)]
                self.wgoose(*common, "--decode", "1", "--decode-tokens", str(TOKENS), home=home)
                if plan != self.hand:
                    self.wgoose(*common, "--prompt-tokens", PROMPTS, home=home)
                records += [{"arm": arm, "run": f"{run}-{round_}", **record} for record in lines(report)]
        for record in records:
            append(self.out / "bench-plans.jsonl", record)
        return records

    def run(self) -> bool:
        """All sweeps that are not there yet, with a line for each; whether all hold."""
        hold = True
        done = {record["run"] for record in lines(self.out / "sweeps.jsonl")}
        for i in range(1, self.given.times + 1):
            run = f"{self.given.model.stem}-{i}"
            plan = self.out / run / "tuned.ron" if run in done else self.sweep(run)
            commit = self.given.commit
            arms = {f"tuned by {commit}": str(plan), f"default, beside {commit}": "default"}
            if self.hand:
                arms[f"hand, beside {commit}"] = self.hand
            known = [record for record in lines(self.out / "bench-plans.jsonl") if record["run"].startswith(f"{run}-")]
            is_whole = len(known) == ROUNDS * (2 * len(arms) - bool(self.hand))  # a hand plan only decodes
            records = known if is_whole else self.bench(run, arms)
            sweep = next(record for record in lines(self.out / "sweeps.jsonl") if record["run"] == run)
            faults, line = judge(sweep, records)
            print(f"{run}: {sweep['wall_s']} s; {line}; {'; '.join(faults) or 'holds'}", flush=True)
            hold &= not faults
        return hold


def medians(records: list[dict], who: str) -> dict[tuple[str, int], list[float]]:
    """By kind and length: the median of each of an arm's rounds, in milliseconds."""
    times: dict[tuple[str, int], list[float]] = {}
    for record in records:
        if record["arm"].startswith(who):
            for row in record["rows"]:
                length = row["job"].get("prompt", 1)
                times.setdefault((row["workload"], length), []).append(row["ms"]["median"])
    return times


def judge(sweep: dict, records: list[dict]) -> tuple[list[str], str]:
    """What does not hold of a sweep's plan, and its figures."""
    rounds = {who: medians(records, who) for who in ("tuned", "default", "hand")}
    tuned, default, hand = ({key: statistics.median(ms) for key, ms in of.items()} for of in rounds.values())
    faults = [f"took {sweep['wall_s']} s"] if sweep["wall_s"] > WALL.get(sweep["effort"], float("inf")) else []
    said = []
    for key, ms in tuned.items():
        workload, length = key
        what = "decode" if workload == "decode" else f"{length} tokens"
        said.append(
            f"{what} {default[key] / ms:.3f} x default" + (f", {hand[key] / ms:.3f} x hand" if key in hand else "")
        )
        # A process reads short prompts a few per cent faster or slower than the next with the same plan.
        if ms > SLOWER * default[key] and min(rounds["tuned"][key]) > max(rounds["default"][key]):
            faults.append(f"{what} slower than the default")
        if workload == "decode" and key in hand and hand[key] / ms < OF_HAND:
            faults.append("decode behind the hand plan")
        claims = [
            c["tuned_us"] / 1e3 for c in sweep["evidence"] if c["tokens"] == length and c["scenario"] != "first token"
        ]
        measured = ms / TOKENS if workload == "decode" else ms
        faults += [
            f"{what} {100 * (measured / claim - 1):+.1f} % of its evidence"
            for claim in claims
            if abs(measured / claim - 1) > WITHIN / 100
        ]
    return faults, "; ".join(said)


def main() -> int:
    """Runs sweeps; 1 where one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--wgoose", type=Path, required=True, help="the program")
    parser.add_argument("--commit", required=True, help="what it was built from")
    parser.add_argument("--out", type=Path, required=True, help="a folder for plans, ledgers and records")
    parser.add_argument("--hand", type=Path, help="a plan made by hand to hold the others against")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--times", type=int, default=5, help="sweeps")
    parser.add_argument("--beside", default="nothing else", help="what else the machine does")
    parser.add_argument("--device", help="as for wgoose")
    return 0 if Sweeps(parser.parse_args()).run() else 1


if __name__ == "__main__":
    sys.exit(main())
