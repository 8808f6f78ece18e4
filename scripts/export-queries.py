#!/usr/bin/env python3
"""Runs the queries that docs/latency-report.md shows over the exports of a small made-up fleet, in DuckDB.

    python3 scripts/export-queries.py FIRSTWORD LOG_RECORDS

FIRSTWORD is the program, LOG_RECORDS the one of the benches that makes logs whose truth is known. Needs the package
duckdb (pip install duckdb). Where the program was built with Parquet, the same queries run over Parquet files, and must
give the same.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "latency-report.md"
PLANTS = {"cabinet-1": "typical", "cabinet-2": "encode", "cabinet-3": "thermal"}
RECORDS = 1500


def main(firstword: str, log_records: str) -> None:
    """Makes the fleet, exports it, runs every query, and checks the answers against what was planted."""
    import duckdb

    queries = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if len(queries) < 3:
        sys.exit(f"{PAGE}: expected at least three queries, found {len(queries)}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("fleet").mkdir()
        environment = dict(os.environ, FIRSTWORD_HOME=folder)
        made = {}
        for seed, (cabinet, plant) in enumerate(PLANTS.items()):
            subprocess.run([log_records, cabinet, str(RECORDS), plant, str(seed)], check=True, stdout=subprocess.DEVNULL)
            made[cabinet] = json.loads(pathlib.Path(cabinet, "truth.json").read_text(encoding="utf-8"))
        formats = ["csv"]
        for cabinet in PLANTS:
            export = [firstword, "log", "export", "--format"]
            subprocess.run([*export, "csv", "-o", f"fleet/{cabinet}.csv", cabinet], check=True, env=environment)
            done = subprocess.run(
                [*export, "parquet", "-o", f"fleet/{cabinet}.parquet", cabinet],
                check=False, env=environment, capture_output=True, text=True,
            )
            if done.returncode == 0:
                formats = ["csv", "parquet"]
            elif "built without Parquet" not in done.stderr:
                sys.exit(done.stderr)
        answers = {}
        for form in formats:
            for query in queries:
                rows = duckdb.sql(query.replace("fleet/*.csv", f"fleet/*.{form}")).fetchall()
                if not rows:
                    sys.exit(f"{form}: no rows from\n{query}")
                answers.setdefault(query, []).append(rows)
                print(f"{form}: {len(rows)} rows from {query.strip().splitlines()[0]} …")
            table = f"fleet/*.{form}"
            (count,) = duckdb.sql(f"select count(*) from '{table}'").fetchall()[0]
            expect(count, RECORDS * len(PLANTS), f"rows in {table}")
            (slow,) = duckdb.sql(
                f"select count(*) from 'fleet/cabinet-2.{form}' where kind = 'turn' and stage_encode_ms > 100"
            ).fetchall()[0]
            planted = len(made["cabinet-2"]["slow"])
            if not 0.95 * planted <= slow <= planted:
                sys.exit(f"{form}: {slow} turns with a slow encoder, {planted} were planted")
        for query, given in answers.items():
            for rows in given[1:]:
                expect(str(rows), str(given[0]), f"Parquet's answer to\n{query}")


def expect(found: object, wanted: object, what: str) -> None:
    """Ends the script where something is not as it must be."""
    if found != wanted:
        sys.exit(f"{what}: expected {wanted}, found {found}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(str(pathlib.Path(sys.argv[1]).resolve()), str(pathlib.Path(sys.argv[2]).resolve()))
