import { readFileSync } from 'node:fs'
import { hrefOf } from './links.mjs'

// index returns the sidebar that the index of the documentation describes: a group for each
// heading, an entry for each page that it links to, by the page's own title.
export function index(file) {
  const groups = []
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const heading = line.match(/^## ([^:]+)/)
    if (heading) groups.push({ text: heading[1], collapsed: false, items: [] })
    if (groups.length === 0) continue
    for (const [, text, target] of line.matchAll(/\[([^\]]+)\]\(([^)\s]+)\)/g)) {
      groups.at(-1).items.push({ text: capitalize(titleOf(file, target) ?? text), link: hrefOf('README.md', target, '/') })
    }
  }
  if (groups.length === 0 || groups.some((g) => g.items.length === 0)) {
    throw new Error(`${file}: a sidebar needs headings of the second level, each with links below it`)
  }
  return groups
}

// titleOf returns the first heading of a page without its number, or undefined where the
// target is a part of a page or no page.
function titleOf(file, target) {
  if (!target.endsWith('.md')) return undefined
  const title = readFileSync(new URL(target, file), 'utf8').match(/^# (.+)$/m)
  if (!title) throw new Error(`${target}: the page has no title`)
  return title[1].replace(/^(\d+\.?|Tutorial:) /, '')
}

const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1)
