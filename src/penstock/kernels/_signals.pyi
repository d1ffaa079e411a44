class HeldSignals:
    """`with held:` no handler of a signal runs, and none raises, until the end of the block. Python runs handlers in
    the main thread alone, between any two instructions; in other threads the block does nothing. Blocks may nest."""

    def __init__(self, main: int) -> None:
        """`main` is the main thread's identifier."""

    def __enter__(self) -> None:
        """Raises, with nothing held, what a handler that is due raises."""

    def __exit__(self, *_: object) -> None:
        """Handlers are as they were, and those of signals that came meanwhile run; raises what they raise."""

    def begin_anew(self) -> None:
        """For the child of a fork, whose only thread is its main thread: nothing is held."""
