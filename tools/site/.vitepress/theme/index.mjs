import { h } from 'vue'
import theme from 'vitepress/theme-without-fonts'
import { start } from '../home.mjs'
import './style.css'

// The first commands, with the button that VitePress gives to blocks of code.
const commands = () => h('div', { class: 'vp-doc start' }, h('div', { class: 'language-sh' }, [
  h('button', { class: 'copy', title: 'Copy Code' }),
  h('pre', { tabindex: 0 }, h('code', start)),
]))

export default {
  extends: theme,
  Layout: () => h(theme.Layout, null, { 'home-hero-after': commands }),
}
