"""A home, a configuration and a temporary directory for tests alone: nothing of the user's own reaches a test, or a
process that a test starts, and nothing of a test reaches the user."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

_HOW_IT_IS_BUILT = {"PENSTOCK_PURE", "PENSTOCK_SANITIZE"}
_KEPT = {
    "PIP_CACHE_DIR": ".cache/pip",
    "PIP_CONFIG_FILE": ".config/pip/pip.conf",
    "NPM_CONFIG_CACHE": ".npm",
    "NPM_CONFIG_USERCONFIG": ".npmrc",
    "PYENV_ROOT": ".pyenv",
}
"""what other programs keep at home and would fetch or lack without: variable -> place below it"""
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""a JVM that is gone in a minute never earns back what its best compiler takes: starting Spark takes half"""


def move_in(variables: MutableMapping[str, str]) -> Path:
    """Changes the variables, for this process and those that it starts. What is there is gone at its end. Compiled
    modules are kept beside their sources, whatever the user prefers: hundreds of interpreters are started."""
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED_JVM)
    place = Path(tempfile.mkdtemp(prefix="penstock-tests-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    home = Path(variables.get("HOME") or place)
    for name in [name for name in variables if name.startswith("PENSTOCK_") and name not in _HOW_IT_IS_BUILT]:
        del variables[name]
    for name, below in _KEPT.items():
        if name not in variables and (home / below).exists():
            variables[name] = str(home / below)
    # Where pytest itself leaves what failed tests wrote.
    variables.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    for name, folder in {
        "HOME": "home",
        "XDG_CONFIG_HOME": "home/.config",
        "XDG_CACHE_HOME": "home/.cache",
        "XDG_DATA_HOME": "home/.local/share",
        "XDG_STATE_HOME": "home/.local/state",
        "TMPDIR": "tmp",
    }.items():
        (place / folder).mkdir(parents=True, exist_ok=True)
        variables[name] = str(place / folder)
    tempfile.tempdir = None
    return place
