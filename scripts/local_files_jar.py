"""Compile src/penstock/spark/jvm with the JDK on the path and pack it: `python scripts/local_files_jar.py`. The jar is
kept beside its source, because who installs Penstock needs no JDK."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

_SOURCE = Path(__file__).parents[1] / "src" / "penstock" / "spark" / "jvm" / "LocalFiles.java"
_JAR = _SOURCE.with_name("local_files.jar")
# The oldest Java that Spark runs on.
_RELEASE = "17"
# Zip files know no earlier day; always the same one, so that the same classes are the same jar.
_DAY = (1980, 1, 1, 0, 0, 0)


def classes() -> dict[str, bytes]:
    """By their names in a jar."""
    [hadoop] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    with tempfile.TemporaryDirectory() as name:
        command = ["javac", "--release", _RELEASE, "-g:none", "-cp", str(hadoop), "-d", name, str(_SOURCE)]
        subprocess.run(command, check=True)
        found = sorted(Path(name).rglob("*.class"))
        return {str(each.relative_to(name)): each.read_bytes() for each in found}


def main() -> None:
    with zipfile.ZipFile(_JAR, "w") as jar:
        for name, content in classes().items():
            jar.writestr(zipfile.ZipInfo(name, _DAY), content)


if __name__ == "__main__":
    main()
