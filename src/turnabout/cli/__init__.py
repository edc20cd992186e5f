"""The command line: parse, call one public function, print. Data on stdout, talk on stderr."""

from turnabout.cli import auditing, comparing, explaining, picturing, plans, recourse, training
from turnabout.cli.app import app, main
from turnabout.cli.named_files import read_table
from turnabout.cli.screen import frame_table

__all__ = [
    "app",
    "auditing",
    "comparing",
    "explaining",
    "frame_table",
    "main",
    "picturing",
    "plans",
    "read_table",
    "recourse",
    "training",
]
