"""aio-pika: a procedure that is called over a queue, and answers directly."""

from __future__ import annotations

import asyncio
import os

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")
_REPLIES = "amq.rabbitmq.reply-to"


async def serve(channel: AbstractChannel) -> None:
    """The length of what is sent."""
    queue = await channel.declare_queue("lengths", auto_delete=True)

    async def answer(message: AbstractIncomingMessage) -> None:
        async with message.process():
            reply = aio_pika.Message(str(len(message.body)).encode(), correlation_id=message.correlation_id)
            await channel.default_exchange.publish(reply, message.reply_to or "")

    await queue.consume(answer)


async def call(channel: AbstractChannel, data: bytes) -> bytes:
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def take(message: AbstractIncomingMessage) -> None:
        answered.set_result(message.body)

    replies = await channel.get_queue(_REPLIES, ensure=False)
    tag = await replies.consume(take, no_ack=True)
    asked = aio_pika.Message(data, reply_to=_REPLIES, correlation_id="1")
    await channel.default_exchange.publish(asked, "lengths", mandatory=True)
    try:
        return await asyncio.wait_for(answered, 10)
    finally:
        await replies.cancel(tag)


async def main() -> None:
    connection = await aio_pika.connect_robust(URL)
    async with connection:
        await serve(await connection.channel())
        asking = await connection.channel()
        for text in ("a lamp", "a longer lamp"):
            print(f"{text!r} has", (await call(asking, text.encode())).decode(), "letters")


if __name__ == "__main__":
    asyncio.run(main())
