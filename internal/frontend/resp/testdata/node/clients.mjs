// Connects with ioredis and node-redis to host:port and prints what they get, as
// JSON: node clients.mjs PORT PASSWORD MODULES
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [port, password, modules] = process.argv.slice(2);
const require = createRequire(join(modules, 'package.json'));
const { Redis } = require('ioredis');
const { createClient } = require('redis');
const out = {};

// plain makes a map of whatever a client makes of one.
function plain(v) {
  if (v instanceof Map) return Object.fromEntries(v);
  if (Array.isArray(v) && v.length % 2 === 0 && typeof v[0] === 'string') {
    return Object.fromEntries(Array.from({ length: v.length / 2 }, (_, i) => [v[2 * i], v[2 * i + 1]]));
  }
  return { ...v };
}

{
  const c = new Redis({ port: +port, password, connectionName: 'by-ioredis', maxRetriesPerRequest: 1 });
  c.on('error', (err) => { out.error = String(err); });
  out.ioredis = {
    one: await c.call('CL.THROTTLE', 'ioredis', 15, 30, 60),
    pipeline: (await c.pipeline(Array.from({ length: 20 }, () => ['call', 'CL.THROTTLE', 'ioredis-p', '15', '30', '60'])).exec()).map(([err, v]) => (err ? String(err) : v[0])),
    check: plain(await c.call('WEIR.CHECK', 'api', 'client_id', 'ioredis')),
    name: await c.client('GETNAME'),
    wrong: await c.call('CL.THROTTLE', 'k', 'x', 1, 1).catch((err) => err.message),
    ttl: await c.ttl('ioredis'),
    multi: (await c.multi().call('CL.THROTTLE', 'ioredis-m', 15, 30, 60).ping().exec()).map(([err, v]) => (err ? String(err) : v)),
    ping: await c.ping(),
  };
  await c.quit();
}
for (const RESP of [2, 3]) {
  const c = createClient({ url: `redis://:${password}@127.0.0.1:${port}/1`, name: 'by-node-redis', RESP });
  c.on('error', (err) => { out.error = String(err); });
  await c.connect();
  const key = `node-redis-${RESP}`;
  out[key] = {
    one: await c.sendCommand(['CL.THROTTLE', key, '15', '30', '60']),
    pipeline: (await Promise.all(Array.from({ length: 20 }, () => c.sendCommand(['CL.THROTTLE', key + '-p', '15', '30', '60'])))).map((v) => v[0]),
    check: plain(await c.sendCommand(['WEIR.CHECK', 'api', 'client_id', key])),
    name: await c.clientGetName(),
    wrong: await c.sendCommand(['CL.THROTTLE', 'k', 'x', '1', '1']).catch((err) => err.message),
    ttl: await c.ttl(key),
    multi: await c.multi().addCommand(['CL.THROTTLE', key + '-m', '15', '30', '60']).ping().exec(),
    ping: await c.ping(),
  };
  await c.close();
}
console.log(JSON.stringify(out));
