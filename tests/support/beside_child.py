"""A door's process that serves one line a connection: who may, and what the server made of a body."""

from __future__ import annotations

import socket
import sys
import threading

import msgspec

from penstock.gateways.beside.child import leave, serve
from penstock.gateways.beside.frames import Heads, result_of
from penstock.gateways.beside.lines import Answer, ListenOptions, Question
from penstock.gateways.beside.server_intake import ServerIntake
from penstock.gateways.beside.server_line import Refused, ServerLine


class Asked(Question, frozen=True, tag="question"):
    name: str


class Told(Answer, frozen=True, kw_only=True):
    greeting: str = ""


class Turned(msgspec.Struct, frozen=True):
    """A body to be turned round."""

    id: int
    size_bytes: int


HEADS: Heads[Turned] = Heads(msgspec.json.Decoder(Turned).decode, lambda head: [head.size_bytes])


def main(line_descriptor: int, intake_descriptor: int) -> int:
    line = ServerLine(socket.socket(fileno=line_descriptor), Told)
    intake = ServerIntake(socket.socket(fileno=intake_descriptor))

    def begin() -> int:
        options = line.options(ListenOptions)
        listener = socket.create_server((options.host, options.port))
        threading.Thread(target=_accept, args=[listener, line, intake], daemon=True).start()
        return int(listener.getsockname()[1])

    return serve(line, intake, begin)


def _accept(listener: socket.socket, line: ServerLine[Told], intake: ServerIntake) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            name = connection.recv(100)
            if name == b"end":
                leave(3)
            connection.sendall(_answer(name, line, intake))


def _answer(name: bytes, line: ServerLine[Told], intake: ServerIntake) -> bytes:
    try:
        greeting = line.ask(Asked(line.next_id(), name.decode())).greeting
    except Refused as error:
        return f"{error.code.value}: {error}".encode()
    reply = intake.ask(Turned(intake.next_id(), len(name)), [name])
    return f"{greeting} {result_of(reply, str)}".encode()


if __name__ == "__main__":
    leave(main(*map(int, sys.argv[1:3])))
