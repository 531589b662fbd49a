import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { home } from './home.mjs'
import { index } from './index.mjs'
import { markdown } from './markdown.mjs'

const icon = 'data:image/svg+xml,' + encodeURIComponent(readFileSync(new URL('../../../internal/insight/dashboard/web/src/icon.svg', import.meta.url), 'utf8').trim())

// The site is built from docs/ as it is: README.md is the page of its folder.
export default defineConfig({
  title: 'Weir',
  description: 'A rate limiter: a reverse proxy, a service, and a Go library.',
  lang: 'en',
  base: '/weir/',
  srcDir: '../../docs',
  outDir: 'dist',
  rewrites: (page) => page.replace(/README\.md$/, 'index.md'),
  markdown,
  transformPageData: home,
  // An address of the reader's own machine is no page of the site.
  ignoreDeadLinks: [/^http:\/\/localhost[:/]/],
  metaChunk: true,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: icon }]],
  vite: {
    logLevel: 'warn',
    plugins: [{
      // docs/ has no packages: what its pages import is found from here.
      name: 'resolve-from-site',
      enforce: 'pre',
      resolveId(id, importer) {
        if (/^vue(\/|$)/.test(id) && importer?.includes('.md')) return this.resolve(id, fileURLToPath(import.meta.url))
      },
    }],
  },
  themeConfig: {
    siteTitle: 'Weir',
    logo: icon,
    sidebar: index(new URL('../../../docs/README.md', import.meta.url)),
    search: {
      provider: 'local',
      options: {
        miniSearch: {
          // A name such as token_bucket is one word.
          options: { tokenize: (text) => text.split(/[^\p{L}\p{N}_]+/u) },
          searchOptions: { combineWith: 'AND' },
        },
      },
    },
    outline: [2, 3],
    externalLinkIcon: true,
    socialLinks: [{ icon: 'github', link: 'https://github.com/weirlimit/weir' }],
  },
})
