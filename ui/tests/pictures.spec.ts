// Pictures of every page in both languages, for the book: cargo xtask ui --pictures.

import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Page } from '@playwright/test'
import { blocked, ended, relationship, startRun, tree } from './fleet'
import { expect, goTo, open, test } from './page'
import { api, plane } from './server'

const FOLDER = resolve(import.meta.dirname, '../../docs/book/images/fleet')

interface Places {
  relationship: number
  live: number
  partial: number
  complete: number
}

async function fill(): Promise<Places> {
  const zone = 'Asia/Tokyo'
  const at = (cron: string) => ({ version: 1, cron, time_zone: zone })
  const place = (name: string) => join(plane().folder, name)
  const names = ['home directories', 'mail archive', 'genome runs 2026', 'build artifacts', 'video masters', 'web logs', 'CAD drawings', 'virtual machine images']
  for (const [index, name] of names.entries()) {
    await relationship(name, `/srv/${name.replaceAll(' ', '-')}`, `/mnt/new/${name.replaceAll(' ', '-')}`, { owner: 'storage team', schedule: index % 2 === 0 ? at(`${index * 5} ${index + 1} * * *`) : null })
  }
  const small = tree('projects', 600, 2000)
  const target = place('new/projects')
  blocked(small, target, 40)
  const projects = await relationship('projects', small, target, { owner: 'storage team', schedule: at('30 2 * * *') })
  const partial = await startRun(projects.id)
  await ended(partial)
  const photos = await relationship('photos', tree('photos', 300, 30_000), place('new/photos'), { owner: 'media', schedule: at('0 4 * * sun') })
  const complete = await startRun(photos.id)
  await ended(complete)
  await ended(await startRun(photos.id))
  const large = await relationship('research data', tree('research', 6000, 20_000), place('new/research'), { owner: 'storage team', limits: { version: 1, bytes_per_second: 800_000 } })
  return { relationship: projects.id, partial, complete, live: await startRun(large.id) }
}

async function picture(page: Page, name: string, language: string): Promise<void> {
  await expect(page.locator('main h1').first()).toBeVisible()
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur())
  await page.waitForTimeout(700)
  await page.screenshot({ path: join(FOLDER, `${name}.${language}.png`) })
}

test('pictures of every page', async ({ browser }) => {
  test.setTimeout(400_000)
  mkdirSync(FOLDER, { recursive: true })
  const at = await fill()
  for (const [language, locale] of [['en', 'en-GB'], ['ja', 'ja-JP']] as const) {
    const { page } = await open(browser, { locale })
    await page.goto('/')
    await picture(page, 'sign-in', language)
    await page.locator('input[type=password]').fill(plane().token)
    await page.locator('form button').click()
    await expect(page.locator('nav')).toBeVisible()
    await goTo(page, `runs/${at.live}`)
    await page.waitForTimeout(20_000)
    await picture(page, 'run', language)
    await goTo(page, 'relationships')
    await picture(page, 'relationships', language)
    await goTo(page, `relationships/${at.relationship}`)
    await picture(page, 'relationship', language)
    await goTo(page, 'runs')
    await picture(page, 'runs', language)
    await goTo(page, `runs/${at.partial}`)
    await picture(page, 'failures', language)
    await goTo(page, `runs/${at.complete + 1}/compare/${at.complete}`)
    await picture(page, 'comparison', language)
    for (const place of ['brokers', 'schedules', 'tokens', 'audit']) {
      await goTo(page, place)
      await picture(page, place, language)
    }
    await goTo(page, `relationships/${at.relationship}/edit`)
    const steps = page.locator('.steps button')
    for (const [index, name] of ['locations', 'options', 'schedule', 'notification', 'check'].entries()) {
      await steps.nth(index).click()
      if (name === 'check') {
        await page.locator('section.try button').first().click()
        await expect(page.getByTestId('planned')).toBeVisible({ timeout: 60_000 })
      }
      await picture(page, `wizard-${name}`, language)
    }
    await page.context().close()
  }
  const dark = await open(browser, { colorScheme: 'dark' }, plane().token)
  await goTo(dark.page, `runs/${at.live}`)
  await dark.page.waitForTimeout(3_000)
  await picture(dark.page, 'run-dark', 'en')
  await api('POST', `/api/v1/runs/${at.live}/cancel`)
})
