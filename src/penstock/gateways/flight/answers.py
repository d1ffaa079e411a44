"""What callers may read: asked by the listener's process, answered on the server's loop."""

from __future__ import annotations

from penstock.broker.auth.access import Access
from penstock.core.errors import PenstockError
from penstock.gateways.beside.login import login, namespace_of
from penstock.gateways.flight.messages import Answer, Question


async def answer(access: Access, question: Question, is_loopback: bool) -> Answer:
    """Never raises what a caller can bring about."""
    try:
        identity = await login(access, question, is_loopback)
        permissions = access.permissions(identity, identity.name)
        namespace = namespace_of(identity, permissions, question.namespace)
    except PenstockError as error:
        return Answer(id=question.id, error=error.code.value, reason=str(error))
    may_read = [permissions.may_browse(queue) for queue in question.queues]
    return Answer(id=question.id, name=identity.name, namespace=namespace, may_read=may_read)
