// Languages, color schemes, keyboard, screen readers, narrow screens.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { en } from '../src/language/en'
import { ja } from '../src/language/ja'
import { fresh, relationship } from './fleet'
import { accessible, expect, goTo, open, signIn, test, unexpected } from './page'
import { api, plane } from './server'

async function places(): Promise<string[]> {
  const made = await relationship(fresh('for every page'), '/srv/a', '/srv/d')
  const runs = await api<{ items: { id: number }[] }>('GET', '/api/v1/runs')
  const run = runs.items.at(-1)?.id ?? 1
  return ['relationships', `relationships/${made.id}`, `relationships/${made.id}/edit`, 'relationships/new', 'runs', `runs/${run}`, `runs/${run}/compare/${run}`, 'schedules', 'brokers', 'tokens', 'audit']
}

for (const colorScheme of ['light', 'dark'] as const) {
  for (const locale of ['en-GB', 'ja-JP']) {
    test(`every page has nothing serious, ${colorScheme}, ${locale}`, async ({ browser }) => {
      test.setTimeout(180_000)
      const { page, faults } = await open(browser, { colorScheme, locale })
      await page.goto('/')
      await expect(page.locator('h1')).toBeVisible()
      await accessible(page, 'sign in')
      await signIn(page, plane().token)
      for (const place of await places()) {
        await goTo(page, place)
        await expect(page.locator('main h1')).toBeVisible()
        await expect(page.getByText(locale === 'ja-JP' ? '読み込み中…' : 'Loading …')).toHaveCount(0)
        await accessible(page, `${place}, ${colorScheme}, ${locale}`)
      }
      expect(await page.evaluate(() => document.documentElement.lang)).toBe(locale.slice(0, 2))
      expect(unexpected(faults)).toEqual([])
    })
  }
}

test('no page scrolls sideways on a narrow screen, and the menu opens', async ({ browser }) => {
  test.setTimeout(120_000)
  for (const locale of ['en-GB', 'ja-JP']) {
    const { page } = await open(browser, { viewport: { width: 360, height: 740 }, locale }, plane().token)
    for (const place of await places()) {
      await goTo(page, place)
      await expect(page.locator('main h1')).toBeVisible()
      const widest = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.querySelector('main')?.scrollWidth ?? 0))
      expect(widest, `${place} ${locale}`).toBeLessThanOrEqual(360)
    }
    await expect(page.locator('nav')).toBeHidden()
    await page.getByRole('button', { expanded: false }).first().click()
    await page.locator('nav').getByRole('link').nth(3).click()
    await expect(page.locator('nav')).toBeHidden()
    await page.context().close()
  }
})

test('everything is reached with the keyboard, and the focus follows', async ({ admin }) => {
  await goTo(admin, 'brokers')
  await expect(admin.getByRole('heading', { name: 'Brokers', level: 1 })).toBeFocused()
  await admin.reload()
  await expect(admin.getByRole('rowheader', { name: 'built-in' })).toBeVisible()
  await admin.keyboard.press('Tab')
  await expect(admin.getByRole('link', { name: 'Skip to the content' })).toBeFocused()
  await admin.keyboard.press('Enter')
  await expect(admin.getByRole('main')).toBeFocused()
  await expect(admin.getByRole('button', { name: 'Drain built-in', exact: true })).toBeVisible()
  await admin.keyboard.press('Tab')
  await expect(admin.getByRole('button', { name: 'Drain built-in', exact: true })).toBeFocused()
  // A dialog keeps the focus, and gives it back.
  await admin.getByRole('button', { name: 'Limits of the group local' }).focus()
  await admin.keyboard.press('Enter')
  const dialog = admin.getByRole('dialog')
  for (let step = 0; step < 12; step += 1) {
    await admin.keyboard.press('Tab')
    const isOutside = await admin.evaluate(() => document.activeElement !== document.body && document.activeElement?.closest('dialog') === null)
    expect(isOutside).toBe(false)
  }
  await admin.keyboard.press('Escape')
  await expect(dialog).toHaveCount(0)
  await expect(admin.getByRole('button', { name: 'Limits of the group local' })).toBeFocused()
})

test('language and color scheme are chosen, and kept', async ({ admin }) => {
  const background = () => admin.evaluate(() => getComputedStyle(document.body).backgroundColor)
  const light = await background()
  await admin.getByLabel('Color scheme').selectOption('Dark')
  expect(await background()).not.toBe(light)
  await admin.getByLabel('Language').selectOption('日本語')
  await expect(admin.getByRole('heading', { name: '転送設定', level: 1 })).toBeVisible()
  await admin.reload()
  await expect(admin.getByRole('heading', { name: '転送設定', level: 1 })).toBeVisible()
  expect(await background()).not.toBe(light)
})

test('the chart is readable in both schemes', async ({ browser }) => {
  const css = readFileSync(resolve(import.meta.dirname, '../src/app.css'), 'utf8')
  const grays = [...css.matchAll(/--quiet: (#\w+)/g)].map((found) => found[1])
  expect(grays).toHaveLength(2)
  const runs = await api<{ items: { id: number }[] }>('GET', '/api/v1/runs')
  expect(runs.items.length).toBeGreaterThan(0)
  const { page } = await open(browser, { colorScheme: 'dark' }, plane().token)
  expect(await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--quiet').trim())).toBe(grays[1])
})

test('both languages have all texts, with equal values', () => {
  const values = (text: string) => [...text.matchAll(/\{(\w+)/g)].map((found) => found[1] ?? '')
  expect(Object.keys(ja).sort()).toEqual(Object.keys(en).sort())
  for (const [key, text] of Object.entries(en)) {
    const translated = ja[key as keyof typeof en]
    expect(translated.trim(), key).not.toBe('')
    expect([...new Set(values(translated))].sort(), key).toEqual([...new Set(values(text))].sort())
    if (/[a-z]{4}/.test(text) && !/^(hakobu|URL|Webhook)/.test(text)) expect(translated, key).not.toBe(text)
  }
})
