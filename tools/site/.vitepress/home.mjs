// The front page: the index of docs/ below what Weir is, how it starts, and six ways in.

// home gives the page of docs/README.md the frontmatter of a front page, which GitHub would
// show as a table if it stood in the file.
export function home(page) {
  if (page.relativePath !== 'index.md') return
  page.frontmatter = {
    layout: 'home',
    hero: {
      name: 'Weir',
      text: 'Rate limits that say who was refused, and whether that was right',
      tagline: 'A reverse proxy, a service, and a Go library; one set of limits in one process or across a fleet.',
      actions: [
        { theme: 'brand', text: 'Limit a service in ten minutes', link: '/tutorials/gateway' },
        { theme: 'alt', text: 'Install', link: '/how-to/install' },
      ],
    },
    features: [
      { title: 'Gateway', details: 'Before a server: routes, WebSockets, HTTP/2.', link: '/tutorials/gateway' },
      { title: 'nginx', details: 'Behind the proxy you have: nginx, Caddy, HAProxy, Traefik, Envoy.', link: '/how-to/forward-auth' },
      { title: 'Go', details: 'A library without dependencies, and middleware.', link: '/tutorials/library' },
      { title: 'Login', details: 'Few wrong passwords, by account and by address; good ones are free.', link: '/tutorials/saas' },
      { title: 'LLM tokens', details: 'Budgets in tokens, whose cost is known afterwards.', link: '/reference/rules' },
      { title: 'Fleet', details: 'One limit on many nodes, over Redis, Valkey or Memcached.', link: '/how-to/fleet' },
    ],
  }
}

/** The commands that show a refusal, as in the README. */
export const start = `go run ./cmd/weir demo --port 8080 --admin 6070
for i in $(seq 11); do curl -so /dev/null -w '%{http_code} ' localhost:8080/login; done`
