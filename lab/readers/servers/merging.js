// A server of Node that merges trailers into the header, as some do, and says which values it
// then finds: node merging.js PROTOCOL PORT NAME. PROTOCOL is http1 or http2.
'use strict'

const [protocol, port, name] = process.argv.slice(2)
const serve = (q, s) => {
  q.resume()
  q.on('end', () => {
    const found = []
    for (const fields of [q.headers, q.trailers]) {
      for (const key of Object.keys(fields)) {
        if (key.replace(/[^a-z0-9]/gi, '').toLowerCase() === name) found.push(...[fields[key]].flat())
      }
    }
    s.end(JSON.stringify({ found, trailers: Object.keys(q.trailers) }))
  })
}
const server = protocol === 'http2' ? require('http2').createServer(serve) : require('http').createServer(serve)
server.listen(Number(port), '127.0.0.1')
