"""What plain Python cannot do: keep handlers of signals from running, and raising, between two lines of code."""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from posix.signal cimport sigaction, sigaction_t

# Without the enums that signal.py wraps around every answer.
from _signal import getsignal, signal, valid_signals

cdef enum:
    _MOST = 128
# Looked through at every __enter__: as objects, so that none is made for a call.
cdef tuple _NUMBERS = tuple(sorted([number for number in valid_signals() if number < _MOST]))
cdef object _handler_of = getsignal


cdef class HeldSignals:
    """See _signals.pyi."""

    cdef list _saved
    cdef sigaction_t _actions[_MOST]
    cdef list _noted
    cdef object _note_one
    cdef int _depth
    cdef unsigned long _main

    def __cinit__(self, unsigned long main):
        self._saved, self._noted, self._depth, self._main = [], [], 0, main
        self._note_one = self._note

    def __enter__(self):
        if PyThread_get_thread_ident() == self._main:
            self._hold()

    def __exit__(self, kind, error, trace):
        if PyThread_get_thread_ident() == self._main:
            self._depth -= 1
            if not self._depth:
                self._release()

    def begin_anew(self):
        self._main, self._depth = PyThread_get_thread_ident(), 0
        self._release()

    def _note(self, number, frame):
        self._noted.append((number, frame))

    cdef _hold(self):
        cdef object number, handler
        if not self._depth:
            PyErr_CheckSignals()
            for number in _NUMBERS:
                handler = _handler_of(number)
                if callable(handler):
                    self._swap(number, handler)
        self._depth += 1

    cdef _swap(self, int number, handler):
        sigaction(number, NULL, &self._actions[number])
        self._saved.append((number, handler))
        try:
            signal(number, self._note_one)
        except BaseException:
            self._release()
            raise

    cdef _release(self):
        """Every handler is put back and every signal is answered, whatever a handler raises."""
        cdef int number
        error = None
        saved, self._saved = self._saved, []
        for number, handler in saved:
            error = _put_back(number, handler) or error
            # With its flags, which signal() does not know of.
            sigaction(number, &self._actions[number], NULL)
        handlers, noted = dict(saved), self._noted
        self._noted = []
        for number, frame in noted:
            try:
                handlers[number](number, frame)
            except BaseException as raised:
                error = raised
        if error is not None:
            raise error


cdef object _put_back(int number, handler):
    """signal() runs the handlers that are due first, and does nothing if one of them raises: what they raised."""
    error = None
    for _ in range(_MOST):
        try:
            signal(number, handler)
            break
        except BaseException as raised:
            error = raised
    return error
