import { accessible, expect, goTo, open, signIn, test } from './page'
import { api } from './server'

test('a broker is drained and takes units again', async ({ admin }) => {
  await goTo(admin, 'brokers')
  const row = admin.getByRole('row', { name: /built-in/ })
  await expect(row).toContainText(/Idle|Busy/)
  await row.getByRole('button', { name: 'Drain built-in', exact: true }).click()
  await expect(row).toContainText('Draining')
  expect(await api('GET', '/api/v1/brokers/built-in')).toMatchObject({ is_draining: true, state: 'draining' })
  await row.getByRole('button', { name: 'Undrain built-in' }).click()
  await expect(row).toContainText(/Idle|Busy/)
})

test('brokers that are there are told from those that are not', async ({ admin }) => {
  await goTo(admin, 'brokers')
  await expect(admin.getByRole('row', { name: /^spare/ })).toContainText('Offline')
  await expect(admin.getByRole('row', { name: /^local/ }).getByRole('cell').first()).toHaveText('1 online, 1 offline')
})

test('a broker of another form, or with another clock, is named as such', async ({ admin }) => {
  const known = (await api<{ items: object[] }>('GET', '/api/v1/brokers')).items[0]
  const refused = { ...known, name: 'newer', state: 'refused', version: '9.0.0', slots: 0, refused: { form: 7, own_form: 2, since_ms: Date.UTC(2026, 10, 28, 9) } }
  await admin.route('**/api/v1/brokers', (route) => route.fulfill({ json: { items: [{ ...known, name: 'late', clock_ahead_s: -3600 }, refused], next: null, total: 2 } }))
  await goTo(admin, 'brokers')
  const row = admin.getByRole('row', { name: /newer/ })
  await expect(row).toContainText('Refused')
  await expect(row).toContainText('It speaks form 7 of the messages, and this control plane form 2')
  await expect(row).toContainText('2026-11-28 09:00:00')
  await expect(row).not.toContainText('clock')
  await expect(admin.getByRole('row', { name: /late/ })).toContainText('Its clock is 1 h 0 min behind the control plane’s.')
  await accessible(admin, 'refused broker')
})

test('brokers and groups show what they reach', async ({ admin }) => {
  const broker = (await api<{ items: object[] }>('GET', '/api/v1/brokers')).items[0]
  await admin.route('**/api/v1/brokers', (route) => route.fulfill({ json: { items: [{ ...broker, name: 'near', reaches: ['/mnt/nas', 's3://backup'] }, { ...broker, name: 'everywhere', reaches: [] }], next: null, total: 2 } }))
  const group = { name: 'site', brokers: 1, brokers_away: 0, slots: 1, units: 0, runs: 0, relationships: 0, limits: null, reaches: ['/mnt/nas'], reaches_everything: false }
  await admin.route('**/api/v1/groups', (route) => route.fulfill({ json: { items: [group], next: null, total: 1 } }))
  await goTo(admin, 'brokers')
  await expect(admin.getByRole('row', { name: /^near/ })).toContainText('Reaches only /mnt/nas, s3://backup')
  await expect(admin.getByRole('row', { name: /^everywhere/ })).not.toContainText('Reaches')
  await expect(admin.getByRole('row', { name: /^site/ })).toContainText('Reaches only /mnt/nas')
  await accessible(admin, 'what brokers reach')
})

test('the limits of a group are changed', async ({ admin }) => {
  await goTo(admin, 'brokers')
  await admin.getByRole('button', { name: 'Limits of the group local' }).click()
  const rate = admin.getByRole('dialog').getByRole('textbox', { name: 'Rate, over all brokers' })
  await rate.fill('1.5 GB/s')
  await rate.press('Enter')
  const limit = async () => (await api<{ items: { name: string; limits?: { bytes_per_second?: number } | null }[] }>('GET', '/api/v1/groups')).items.find((group) => group.name === 'local')?.limits?.bytes_per_second
  await expect.poll(limit).toBe(1_500_000_000)
  await rate.fill('')
  await rate.press('Enter')
  await expect.poll(limit).toBe(undefined)
})

test('the limits of an endpoint are set, changed and removed', async ({ admin }) => {
  await goTo(admin, 'brokers')
  const limits = async () => (await api<{ items: { location: string; limits: object }[] }>('GET', '/api/v1/endpoint-limits')).items
  await admin.getByLabel('Location of the endpoint').fill('nas:/srv/')
  await admin.getByRole('button', { name: 'Set limits' }).click()
  const dialog = admin.getByRole('dialog', { name: 'Limits of nas:/srv/' })
  const operations = dialog.getByRole('spinbutton', { name: 'Operations/s at each end' })
  await operations.fill('500')
  await operations.press('Enter')
  await expect(dialog.getByTestId('limits')).toContainText('Held to 500 operations/s at each end since')
  expect(await limits()).toMatchObject([{ location: 'nas:/srv', limits: { operations_per_second: 500 } }])
  await dialog.getByRole('button', { name: 'Done' }).click()
  const row = admin.getByRole('row', { name: /nas:\/srv/ })
  await expect(row).toContainText('500 operations/s at each end')
  await accessible(admin, 'limits of endpoints')

  await row.getByRole('button', { name: 'Limits of nas:/srv' }).click()
  const again = admin.getByRole('dialog', { name: 'Limits of nas:/srv' })
  const none = again.getByRole('spinbutton', { name: 'Operations/s at each end' })
  await none.fill('')
  await none.press('Enter')
  await expect(again.getByTestId('limits')).toContainText('No limits since')
  expect(await limits()).toEqual([])
  await again.getByRole('button', { name: 'Done' }).click()
  await expect(row).toHaveCount(0)

  await admin.getByLabel('Location of the endpoint').fill('srv')
  await admin.getByRole('button', { name: 'Set limits' }).click()
  const wrong = admin.getByRole('dialog', { name: 'Limits of srv' })
  const refused = wrong.getByRole('spinbutton', { name: 'Operations/s at each end' })
  await refused.fill('5')
  await refused.press('Enter')
  await expect(wrong).toContainText('the path does not begin with /')
})

test('a token is made, shown once, used and revoked', async ({ admin, browser }) => {
  await goTo(admin, 'tokens')
  await admin.getByRole('button', { name: 'New token' }).click()
  const dialog = admin.getByRole('dialog')
  await dialog.getByLabel('Name').fill('grafana')
  await dialog.getByRole('radio', { name: /^Operator/ }).check()
  await dialog.getByLabel('Valid for days').fill('30')
  await accessible(admin, 'new token')
  await dialog.getByRole('button', { name: 'Create' }).click()
  const secret = await admin.getByTestId('secret').innerText()
  await dialog.getByRole('button', { name: 'Done' }).click()
  await expect(admin.getByTestId('secret')).toHaveCount(0)
  const row = admin.getByRole('row', { name: /grafana/ })
  await expect(row).toContainText('Operator')
  await expect(row).toContainText('in 29 d 23 h')

  const other = await open(browser)
  await signIn(other.page, secret)
  await expect(other.page.getByText('grafana')).toBeVisible()
  await row.getByRole('button', { name: 'Revoke grafana' }).click()
  await dialog.getByRole('button', { name: 'Revoke' }).click()
  await expect(row).toHaveCount(0)
  await goTo(other.page, 'brokers')
  await expect(other.page.getByText('Your session has ended')).toBeVisible()
})

test('the audit log names who did what', async ({ admin }) => {
  await api('POST', '/api/v1/tokens', { label: 'to be audited', role: 'viewer' })
  await goTo(admin, 'audit')
  const row = admin.getByRole('row', { name: /to be audited/ }).first()
  await expect(row).toContainText('Create token')
  await expect(row).toContainText('tests')
  await expect(row).toContainText('role viewer')
})
