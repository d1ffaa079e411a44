// MQTT.js at the other end of a pipe: a command a line on standard input, an answer or an event a line on standard output.
const mqtt = require('mqtt');
const readline = require('node:readline');

const say = (said) => process.stdout.write(JSON.stringify(said) + '\n');
let client = null;

const commands = {
  async connect({ url, options, will }) {
    const whole = { ...options, reconnectPeriod: 0 };
    if (will) whole.will = { topic: will.topic, payload: Buffer.from(will.payload, 'base64'), qos: 1 };
    client = mqtt.connect(url, whole);
    client.on('message', (topic, payload, packet) =>
      say({ event: 'message', topic, payload: payload.toString('base64'), qos: packet.qos, retain: packet.retain }));
    return new Promise((done, failed) => {
      client.once('connect', (connack) => done({ present: connack.sessionPresent }));
      client.once('error', failed);
    });
  },
  async subscribe({ filter, qos, properties }) {
    const granted = await client.subscribeAsync(filter, { qos, properties });
    return { granted: granted.map((each) => each.qos) };
  },
  async publish({ topic, payload, qos, retain }) {
    await client.publishAsync(topic, Buffer.from(payload, 'base64'), { qos, retain });
    return {};
  },
  async disconnect() {
    await client.endAsync();
    return {};
  },
  async drop() {
    client.stream.destroy();
    return {};
  },
};

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line);
  try {
    say({ event: 'done', ...(await commands[command.do](command)) });
  } catch (error) {
    say({ event: 'failed', why: String(error) });
  }
}).on('close', () => process.exit(0));
