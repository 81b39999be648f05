// What test_node.py asks of Node's amqplib. Prints one JSON object; argv: URL, and for TLS the file of the authority.
const assert = require("assert");
const fs = require("fs");
const amqp = require("amqplib");

const [url, authority] = process.argv.slice(2);
const options = authority ? { ca: [fs.readFileSync(authority)] } : {};

async function main() {
  const connection = await amqp.connect(url, options);
  const seen = {};

  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true, arguments: { "x-max-priority": 5 } });
  await channel.assertExchange("events", "topic", { durable: false });
  await channel.bindQueue(queue, "events", "a.*");
  for (let n = 0; n < 500; n++) {
    channel.publish("events", "a.b", Buffer.from(String(n)), { headers: { n, list: [1, "x", true] } });
  }
  await channel.waitForConfirms();

  await channel.prefetch(50);
  seen.bodies = await new Promise((resolve) => {
    const bodies = [];
    channel.consume(queue, (message) => {
      assert.deepStrictEqual(message.properties.headers.list, [1, "x", true]);
      channel.ack(message);
      if (bodies.push(message.content.toString()) === 500) resolve(bodies.length);
    });
  });

  seen.returned = await new Promise((resolve) => {
    channel.once("return", (message) => resolve(message.fields.replyText));
    channel.publish("", "nowhere", Buffer.from("back"), { mandatory: true });
  });

  await channel.assertQueue("doomed");
  seen.cancelled = await new Promise((resolve) => {
    channel.consume("doomed", (message) => resolve(message)).then(() => channel.deleteQueue("doomed"));
  });

  const other = await connection.createChannel();
  seen.refused = await new Promise((resolve) => {
    other.once("error", (error) => resolve(error.code));
    other.checkQueue("absent").catch(() => {});
  });

  // Publishes are still on their way when the connection is closed: the answer must arrive all the same.
  const last = await connection.createChannel();
  while (last.sendToQueue(queue, Buffer.alloc(100)));
  await connection.close();
  seen.closed = true;
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
