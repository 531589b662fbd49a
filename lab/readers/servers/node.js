// The readers of Node: node node.js READER PORT. Each answers what it read of a request:
// the route that its router chose, and the texts that its parsers found.
'use strict'

// texts returns the strings in what a parser made of a parameter.
const texts = v => typeof v === 'string' ? [v] : v && typeof v === 'object' ? Object.values(v).flatMap(texts) : []
// member returns an own member, of objects without a prototype too.
const member = (o, name) => o && Object.hasOwn(o, name) ? o[name] : undefined
const read = (route, query, cookies, headers) => ({
  route,
  keys: [...texts(headers['x-api-key']), ...texts(member(query, 'api_key')), ...texts(member(cookies, 'api_key'))],
  accounts: [...texts(member(query, 'account')), ...texts(member(cookies, 'account'))]
})
const below = ['graphql', 'static', 'admin']

function express (name) {
  const app = require(name)()
  app.use(require('cookie-parser')())
  const say = route => (q, s) => s.json(read(route, q.query, q.cookies, q.headers))
  app.all('/health', say('health'))
  for (const one of below) app.use('/' + one, say(one))
  app.all('/:x/open', say('open'))
  app.use(say('rest'))
  return require('http').createServer(app)
}

async function fastify () {
  const app = require('fastify')({ ignoreTrailingSlash: true })
  await app.register(require('@fastify/cookie'))
  const say = route => async q => read(route, q.query, q.cookies, q.headers)
  app.all('/health', say('health'))
  for (const one of below) { app.all('/' + one, say(one)); app.all(`/${one}/*`, say(one)) }
  app.all('/:x/open', say('open'))
  app.all('/', say('rest'))
  app.all('/*', say('rest'))
  await app.ready()
  return app.server
}

function koa () {
  const Koa = require('koa')
  const Router = require('@koa/router')
  const app = new Koa()
  const router = new Router()
  const say = route => c => {
    const cookies = { api_key: c.cookies.get('api_key'), account: c.cookies.get('account') }
    c.body = read(route, c.query, cookies, c.headers)
  }
  router.all('/health', say('health'))
  for (const one of below) { router.all('/' + one, say(one)); router.all(`/${one}/{*rest}`, say(one)) }
  router.all('/:x/open', say('open'))
  app.use(router.routes())
  app.use(say('rest'))
  return require('http').createServer(app.callback())
}

// Without a framework: the URL class, as its documentation shows it.
function plain () {
  return require('http').createServer((q, s) => {
    let url
    try { url = new URL(q.url, 'http://localhost') } catch { s.statusCode = 400; return s.end() }
    const at = url.pathname.split('/').slice(1)
    if (at[at.length - 1] === '') at.pop()
    const route = at.length === 1 && at[0] === 'health' ? 'health' : below.includes(at[0]) ? at[0] : at.length === 2 && at[1] === 'open' ? 'open' : 'rest'
    const query = { api_key: url.searchParams.getAll('api_key'), account: url.searchParams.getAll('account') }
    s.setHeader('Content-Type', 'application/json')
    s.end(JSON.stringify(read(route, query, {}, q.headers)))
  })
}

async function main ([reader, port]) {
  const server = await { express4: () => express('express4'), express5: () => express('express5'), fastify, koa, node: plain }[reader]()
  server.listen(Number(port), '127.0.0.1')
}
main(process.argv.slice(2))
