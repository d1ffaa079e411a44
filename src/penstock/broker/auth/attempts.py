"""How often somebody may guess a password, and what became of logins."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from hashlib import blake2b

from penstock.broker.auth.limits import KeyedRates, peer_key, speed
from penstock.broker.auth.options import AuthOptions
from penstock.core.errors import PenstockError, TooManyAttempts
from penstock.core.ports import Clock

logger = logging.getLogger("penstock.auth")

# Of one address: who floods the door does not fill the log.
_LINES, _LINES_WINDOW_S = 5, 60.0


@dataclass(slots=True)
class LoginMetrics:
    """Since the server was started."""

    logins: int = 0
    logins_failed: int = 0
    logins_refused: int = 0
    """unseen, because there were too many"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Somebody at an IP address who says to be a user."""

    peer: str
    user: str
    is_loopback: bool


class Attempts:
    """A wrong guess is taken from a bucket of its address and from one of the user; an empty one keeps the next from
    being looked at. Right logins cost nothing, however many come from one address at once.

    A user's bucket is the larger one, so that a stranger does not lock somebody out with a few wrong guesses. On
    loopback addresses are not looked at: behind a proxy all clients have the same."""

    def __init__(self, options: AuthOptions, clock: Clock) -> None:
        per_ip, per_user = options.max_failed_logins_per_ip, options.max_failed_logins_per_user
        window_s = options.failed_login_window_s
        self._peers = KeyedRates(speed(per_ip, window_s, per_ip), clock)
        self._users = KeyedRates(speed(per_user, window_s, per_user), clock)
        self._lines = KeyedRates(speed(_LINES, _LINES_WINDOW_S, _LINES), clock)
        self._lock = threading.Lock()
        self.metrics = LoginMetrics()

    def check(self, attempt: Attempt) -> None:
        """TooManyAttempts if it may not be tried now. From any thread."""
        with self._lock:
            peer_s = 0.0 if attempt.is_loopback else self._peers.wait_s(peer_key(attempt.peer))
            user_s = self._users.wait_s(_user_key(attempt.user))
        if peer_s:
            raise TooManyAttempts("too many failed logins from this address", peer_s)
        if user_s:
            raise TooManyAttempts("too many failed logins of this user", user_s)

    def guessed_wrong(self, attempt: Attempt) -> None:
        """From any thread."""
        with self._lock:
            if not attempt.is_loopback:
                self._peers.take(peer_key(attempt.peer))
            self._users.take(_user_key(attempt.user))

    def succeeded(self) -> None:
        self.metrics.logins += 1

    def failed(self, attempt: Attempt, error: PenstockError) -> None:
        if isinstance(error, TooManyAttempts):
            self.metrics.logins_refused += 1
        else:
            self.metrics.logins_failed += 1
        if self._lines.take(peer_key(attempt.peer)).allowed:
            logger.warning("login failed user=%r peer=%s reason=%s", attempt.user[:80], attempt.peer, error)


def _user_key(user: str) -> bytes:
    """Of one size, however long a name somebody sends."""
    return blake2b(user.encode(errors="surrogatepass"), digest_size=16).digest()
