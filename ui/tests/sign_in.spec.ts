import { accessible, expect, goTo, open, signIn, test, unexpected } from './page'
import { api, plane, tokenOf } from './server'

test('a wrong token is refused with words, and the right one signs in', async ({ browser }) => {
  const { page } = await open(browser)
  await page.goto('/')
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible()
  await expect(page.getByLabel('Token')).toBeFocused()
  await page.getByLabel('Token').fill('nonsense')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('alert')).toContainText('token')
  await accessible(page, 'sign in')
  await signIn(page, plane().token)
  await expect(page.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
  expect(await page.evaluate(() => document.cookie)).toBe('')
  await page.reload()
  await expect(page.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible()
  await page.reload()
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible()
})

test('an address with a token that is valid once signs in once', async ({ browser }) => {
  const made = await api<{ secret: string }>('POST', '/api/v1/tokens', { label: 'once', role: 'viewer', is_single_use: true })
  const first = await open(browser)
  await first.page.goto(`/#/sign-in?token=${made.secret}`)
  await expect(first.page.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
  expect(first.page.url()).not.toContain(made.secret)
  const second = await open(browser)
  await second.page.goto(`/#/sign-in?token=${made.secret}`)
  await expect(second.page.getByRole('heading', { name: 'Sign in' })).toBeVisible()
  await expect(second.page.getByRole('alert')).toContainText('token')
})

test('a session ends with its token, and says so', async ({ browser }) => {
  const made = await api<{ secret: string; token: { id: number } }>('POST', '/api/v1/tokens', { label: 'soon gone', role: 'viewer' })
  const { page } = await open(browser, {}, made.secret)
  await api('DELETE', `/api/v1/tokens/${made.token.id}`)
  await goTo(page, 'runs')
  await expect(page.getByText('Your session has ended')).toBeVisible()
})

test('a viewer sees everything and is offered no changes', async ({ browser }) => {
  const { page, faults } = await open(browser, {}, await tokenOf('viewer'))
  await expect(page.getByRole('link', { name: 'Runs' })).toBeVisible()
  await expect(page.getByRole('link', { name: 'New relationship' })).toHaveCount(0)
  await expect(page.getByRole('link', { name: 'Tokens' })).toHaveCount(0)
  await goTo(page, 'brokers')
  await expect(page.getByRole('rowheader', { name: 'built-in' })).toBeVisible()
  await expect(page.getByRole('button', { name: /Drain/ })).toHaveCount(0)
  expect(unexpected(faults)).toEqual([])
})
