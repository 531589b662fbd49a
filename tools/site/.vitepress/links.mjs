import { existsSync, statSync } from 'node:fs'
import { posix } from 'node:path'

const repository = 'https://github.com/weirlimit/weir'
const root = new URL('../../../', import.meta.url)

// hrefOf returns where a link of a page of docs/ leads: pages and pictures of docs/ are of
// the site, below prefix or beside the page; other files are shown by GitHub.
export function hrefOf(page, target, prefix) {
  if (/^([a-z]+:|#)/.test(target)) return target
  const [path, anchor] = target.split('#')
  const file = posix.join('docs', posix.dirname(page), path)
  const found = new URL(file, root)
  if (!existsSync(found)) throw new Error(`docs/${page}: dead link ${target}`)
  if (file.startsWith('docs/') && /\.(md|png)$/.test(file)) {
    const page = prefix === undefined ? path : prefix + file.slice('docs/'.length)
    return page.replace(/README\.md$/, 'index.md') + (anchor ? '#' + anchor : '')
  }
  const kind = statSync(found).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${file}` + (anchor ? '#' + anchor : '')
}
