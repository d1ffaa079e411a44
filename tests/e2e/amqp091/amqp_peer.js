// Clients of Node against a broker of AMQP 0.9.1: `node amqp_peer.js <library> <url> <name>`; prints what it saw as JSON.
"use strict";
const assert = require("node:assert");

const [library, url, name] = process.argv.slice(2);
const BODY = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
const seen = {};

function later(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function until(isSo) {
  const end = Date.now() + 15000;
  while (!(await isSo())) {
    assert(Date.now() < end, "waited too long");
    await later(20);
  }
}

async function amqplib() {
  const amqp = require("amqplib");
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(name, { durable: true });
  for (let n = 0; n < 500; n++) {
    channel.sendToQueue(name, Buffer.from(String(n)), { persistent: true, headers: { n, text: "größe" } });
  }
  await channel.waitForConfirms();
  seen.stored = (await channel.checkQueue(name)).messageCount;

  const bodies = [];
  await channel.prefetch(50);
  const { consumerTag } = await channel.consume(name, (message) => {
    assert.strictEqual(message.properties.headers.n, Number(message.content));
    bodies.push(Number(message.content));
    channel.ack(message);
  });
  await until(() => bodies.length === 500);
  seen.inOrder = bodies.every((body, n) => body === n);
  await channel.cancel(consumerTag);

  let returned = null;
  channel.on("return", (message) => (returned = message.content.toString()));
  channel.publish("", name + ".none", Buffer.from("lost"), { mandatory: true });
  await channel.waitForConfirms();
  seen.returned = returned;

  await channel.assertExchange(name, "topic", { durable: false });
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindQueue(queue, name, "a.*");
  channel.publish(name, "a.b", BODY, { contentType: "application/octet-stream", messageId: "m", priority: 3 });
  channel.publish(name, "b.b", BODY);
  await channel.waitForConfirms();
  const got = await channel.get(queue, { noAck: true });
  seen.same = got.content.equals(BODY) && got.properties.messageId === "m" && got.properties.priority === 3;
  seen.empty = await channel.get(queue);

  const failing = await connection.createChannel();
  let closed = null;
  failing.on("error", (error) => (closed = error.code));
  await failing.checkQueue(name + ".none").catch(() => undefined);
  seen.closed = closed;
  await channel.deleteQueue(name);
  await connection.close();
}

async function amqpclient() {
  const { AMQPClient } = require("@cloudamqp/amqp-client");
  const connection = await new AMQPClient(url).connect();
  const channel = await connection.channel();
  await channel.confirmSelect();
  await channel.queueDeclare(name, { durable: true });
  const sent = [];
  for (let n = 0; n < 500; n++) sent.push(channel.basicPublish("", name, String(n), { deliveryMode: 2, headers: { n } }));
  await Promise.all(sent);
  seen.stored = (await channel.queueDeclare(name, { passive: true })).messageCount;

  const bodies = [];
  await channel.prefetch(50);
  const consumer = await channel.basicConsume(name, { noAck: false }, async (message) => {
    bodies.push(Number(message.bodyString()));
    await message.ack();
  });
  await until(() => bodies.length === 500);
  seen.inOrder = bodies.every((body, n) => body === n);
  await channel.basicCancel(consumer.tag);

  let returned = null;
  channel.onReturn = (message) => (returned = message.bodyString());
  await channel.basicPublish("", name + ".none", "lost", {}, true);
  await until(() => returned !== null);
  seen.returned = returned;

  await channel.exchangeDeclare(name, "topic", { durable: false });
  const own = (await channel.queueDeclare("", { exclusive: true })).name;
  await channel.queueBind(own, name, "a.*");
  const properties = { contentType: "application/octet-stream", messageId: "m", priority: 3 };
  await channel.basicPublish(name, "a.b", BODY, properties);
  await channel.basicPublish(name, "b.b", BODY);
  const got = await channel.basicGet(own, { noAck: true });
  seen.same = Buffer.from(got.body).equals(BODY) && got.properties.messageId === "m" && got.properties.priority === 3;
  seen.empty = (await channel.basicGet(own, { noAck: true })) !== null;

  const failing = await connection.channel();
  seen.closed = await failing.queueDeclare(name + ".none", { passive: true }).then(
    () => null,
    (error) => (String(error).includes("NOT_FOUND") ? 404 : String(error)),
  );
  await channel.queueDelete(name);
  await connection.close();
}

const run = { amqplib, "amqp-client": amqpclient }[library];
run().then(
  () => {
    console.log(JSON.stringify(seen));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
