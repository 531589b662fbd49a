// An Express application that forwards what a policy lets pass:
//
//     node policy.js POLICY UPSTREAM
//
// POLICY is a file of statements about app, as docs/how-to/coming-from.md has them. It
// prints the port on loopback that it listens on.
import { readFileSync } from 'node:fs'
import http from 'node:http'
import express from 'express'
import { rateLimit } from 'express-rate-limit'

const [policy, upstream] = process.argv.slice(2)
const app = express()
new Function('app', 'rateLimit', readFileSync(policy, 'utf8'))(app, rateLimit)
app.use((request, response) => {
  http.get(upstream + request.url, (answer) => {
    response.status(answer.statusCode)
    answer.pipe(response)
  }).on('error', (error) => response.status(502).end(error.message))
})
const server = app.listen(0, '127.0.0.1', (error) => {
  if (error) throw error
  console.log('port ' + server.address().port)
})
