"""Whose a query, a stage or a pipeline's name is: of the login that used it first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.errors import NotAuthorised


@dataclass(frozen=True, slots=True)
class Owner:
    """Who stages and commits: a login of a namespace. `administers` says in which namespaces it may do so for
    others."""

    name: str
    namespace: str
    administers: Callable[[str], bool]

    @property
    def mark(self) -> str:
        """What records hold. A namespace has no slash; without a name it is nobody's."""
        return f"{self.namespace}/{self.name}" if self.name else ""

    def owns(self, mark: str) -> bool:
        """What is nobody's is everyone's."""
        return not mark or mark == self.mark or self.administers(mark.partition("/")[0])

    def require(self, mark: str, what: str) -> None:
        """NotAuthorised for what is somebody else's, with nothing changed."""
        if not self.owns(mark):
            raise NotAuthorised(
                f"{what} belongs to {self._shown(mark)}, not to {self.name}: use that login, or let an admin release it"
            )

    def _shown(self, mark: str) -> str:
        """Names of another namespace are not told."""
        namespace, _, name = mark.partition("/")
        return repr(name) if namespace == self.namespace else "a login of another namespace"


OPERATOR = Owner("", "", lambda namespace: True)
"""Who has the directory open, and leaves no mark."""
