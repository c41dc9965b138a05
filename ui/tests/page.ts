// A page that is signed in. Every test fails on errors of the console, violations of the content security policy, and requests
// to other places.

import { AxeBuilder } from '@axe-core/playwright'
import { type Browser, type BrowserContextOptions, expect, type Page, test as base } from '@playwright/test'
import { plane } from './server'

export interface Opened {
  page: Page
  faults: string[]
}

export async function open(browser: Browser, options: BrowserContextOptions = {}, token?: string): Promise<Opened> {
  const { url } = plane()
  const context = await browser.newContext({ baseURL: url, locale: 'en-GB', timezoneId: 'UTC', viewport: { width: 1280, height: 800 }, ...options })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') faults.push(`${message.text()} ${message.location().url}`)
  })
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) faults.push(`outside: ${request.url()}`)
  })
  if (token !== undefined) await signIn(page, token)
  return { page, faults }
}

/** Signs in by typing a token. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.goto('/')
  await page.locator('input[type=password]').fill(token)
  await page.locator('form button').click()
  await expect(page.locator('nav')).toBeAttached()
}

export async function goTo(page: Page, place: string): Promise<void> {
  await page.evaluate((hash) => (location.hash = hash), `#/${place}`)
}

/** Checks a page for what people with a keyboard or a screen reader would stumble over. */
export async function accessible(page: Page, what: string): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze()
  const serious = violations.filter((violation) => violation.impact === 'serious' || violation.impact === 'critical')
  expect(serious.map((violation) => `${what}: ${violation.id}: ${violation.nodes.map((node) => node.html).join(' ')}`)).toEqual([])
}

/** Returns faults without the answers by which the page learns that nobody is signed in, or that an input is refused. */
export function unexpected(faults: string[]): string[] {
  return faults.filter((fault) => !/status of (400|401|409) /.test(fault))
}

interface Fixtures {
  /** A page of an admin, in English. */
  admin: Page
}

export const test = base.extend<Fixtures>({
  admin: async ({ browser }, use) => {
    const { page, faults } = await open(browser, {}, plane().token)
    await use(page)
    await page.context().close()
    expect(unexpected(faults)).toEqual([])
  },
})
export { expect }
