// amqplib: work that is published with confirms, and shared out.
import amqp from "amqplib";

const url = process.env.AMQP_URL ?? "amqp://guest:guest@127.0.0.1:5672//";
const connection = await amqp.connect(url.replace(/\/\/$/, "/%2F"));
const publishing = await connection.createConfirmChannel();
const { queue } = await publishing.assertQueue("work", { durable: true });

for (let number = 1; number <= 5; number += 1) {
  publishing.sendToQueue(queue, Buffer.from(`task ${number}`), { persistent: true, headers: { number } });
}
await publishing.waitForConfirms();
console.log("5 tasks are on disk");

const working = await connection.createChannel();
await working.prefetch(1);
await new Promise((done) => {
  let left = 5;
  working.consume(queue, (message) => {
    console.log(`${message.content} (${message.properties.headers.number})`);
    working.ack(message);
    left -= 1;
    if (left === 0) done();
  });
});
await connection.close();
