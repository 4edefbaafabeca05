"""The stubs say what the module has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_stubs_are_true(tmp_path: Path) -> None:
    """Names, arguments and defaults, both ways."""
    # The module within the package is no part of the interface.
    allowed = tmp_path / "allowed"
    allowed.write_text("wgoose.wgoose\n")
    compare = [sys.executable, "-m", "mypy.stubtest", "wgoose", "--allowlist", str(allowed)]
    result = subprocess.run(compare, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
