import { hrefOf } from './links.mjs'

// slugify returns the anchor that GitHub gives a heading.
const slugify = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replace(/ /g, '-')

export const markdown = {
  anchor: { slugify },
  languageAlias: { haproxy: 'nginx' },
  theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  config(md) {
    md.core.ruler.push('links', (state) => {
      for (const { children } of state.tokens) {
        for (const token of children ?? []) {
          if (token.type !== 'link_open') continue
          token.attrSet('href', hrefOf(state.env.relativePath, token.attrGet('href')))
        }
      }
    })
    // Braces of the text are text, and no expression of Vue.
    md.renderer.rules.text = (tokens, i) => md.utils.escapeHtml(tokens[i].content).replace(/\{/g, '&#123;')
    // An indented block is as one between fences: it scrolls in a box of its own.
    md.core.ruler.push('code', (state) => {
      for (const token of state.tokens) if (token.type === 'code_block') Object.assign(token, { type: 'fence', tag: 'code', info: 'txt' })
    })
    // A wide table does so too.
    md.renderer.rules.table_open = () => '<div class="wide" tabindex="0"><table>\n'
    md.renderer.rules.table_close = () => '</table></div>\n'
  },
}
