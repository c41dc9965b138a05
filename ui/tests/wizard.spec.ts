import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fresh, relationship, startRun, tree } from './fleet'
import { accessible, expect, goTo, test } from './page'
import { api, plane } from './server'
import { bucket } from './store'

interface View {
  id: number
  revision: number
  relationship: { name: string; owner: string; request: { verb: string; sources: string[]; target: string; arguments: string[] }; schedule: unknown; limits: unknown }
}

test('the wizard makes a relationship, step by step', async ({ admin }) => {
  const source = tree(fresh('wizard source'), 30)
  const target = join(plane().folder, fresh('wizard target'))
  const name = fresh('made in the page')
  await admin.getByRole('link', { name: 'New relationship' }).click()
  await expect(admin.getByRole('heading', { level: 1 })).toBeFocused()

  // What is missing is told beside its field.
  await admin.getByLabel('Group').fill('')
  await admin.getByRole('button', { name: 'Next' }).click()
  await expect(admin.getByLabel('Name')).toHaveAttribute('aria-invalid', 'true')
  await admin.getByLabel('Name').fill(name)
  await admin.getByLabel('Group').fill('local')

  // The source is chosen through a broker.
  await admin.getByRole('button', { name: 'Browse: Source' }).click()
  const dialog = admin.getByRole('dialog')
  await dialog.getByLabel('Location').fill(plane().folder)
  await dialog.getByRole('button', { name: 'Open' }).click()
  await dialog.getByRole('button', { name: source.split('/').at(-1) ?? '' }).click()
  await expect(dialog.getByRole('button', { name: 'd0' })).toBeVisible()
  await accessible(admin, 'browser')
  await dialog.getByRole('button', { name: 'Choose this directory' }).click()
  await expect(admin.getByRole('textbox', { name: 'Source' })).toHaveValue(source)
  await admin.getByRole('textbox', { name: 'Source' }).fill(`${source}/`)
  await admin.getByRole('textbox', { name: 'Target' }).fill(target)
  await admin.getByRole('button', { name: 'Test the connection' }).click()
  await expect(admin.getByTestId('test')).toContainText('reachable; will be created')
  await admin.getByRole('button', { name: 'Next' }).click()

  await expect(admin.getByRole('heading', { name: 'Options' })).toBeFocused()
  await admin.getByLabel('Unchanged files are recognized by').selectOption('content')
  await admin.getByRole('button', { name: 'Add a rule' }).click()
  await admin.getByLabel('Pattern').fill('*.tmp')
  await admin.getByRole('button', { name: 'Add credentials' }).click()
  await admin.getByLabel('Kind of credentials').selectOption('Secret, as lines of NAME=VALUE')
  await admin.getByRole('textbox', { name: 'Secret, as lines of NAME=VALUE' }).fill('AWS_SECRET_ACCESS_KEY=not to be seen again')
  await admin.getByRole('button', { name: 'Next' }).click()

  await admin.getByLabel('By schedule').check()
  await admin.getByLabel('Cron expression').fill('61 * * * *')
  await expect(admin.getByLabel('Cron expression')).toHaveAttribute('aria-invalid', 'true')
  await admin.getByLabel('Cron expression').fill('30 2 * * mon')
  await admin.getByLabel('Time zone').fill('Asia/Tokyo')
  await expect(admin.getByTestId('starts').getByRole('listitem')).toHaveCount(5)
  await expect(admin.getByTestId('starts')).toContainText('02:30:00')
  // What is no limit is not taken for none.
  const rate = admin.getByRole('textbox', { name: 'Rate, over all brokers' })
  for (const [field, wrong, right] of [[rate, '20 bananas', '200 MB/s'], [admin.getByLabel('Brokers at the same time'), '-1', '']] as const) {
    await field.fill(wrong)
    await admin.getByRole('button', { name: 'Next' }).click()
    await expect(field).toHaveAttribute('aria-invalid', 'true')
    await field.fill(right)
  }
  await admin.getByRole('button', { name: 'Next' }).click()

  await admin.getByLabel('Owner').fill('storage team')
  await admin.getByLabel('Mail to').fill('storage@example.org, ops@example.org')
  await admin.getByRole('button', { name: 'Add a webhook' }).click()
  await admin.getByLabel('URL').fill('https://hooks.example.org/hakobu')
  await admin.getByRole('checkbox', { name: 'a run is complete' }).check()
  await admin.getByRole('button', { name: 'Next' }).click()

  await expect(admin.getByText(/hakobu copy .*--compare=digest/)).toBeVisible()
  await admin.getByRole('button', { name: 'Run the preview' }).click()
  await expect(admin.getByTestId('planned')).toContainText('Created32', { timeout: 30_000 })
  await admin.getByRole('button', { name: 'Predict' }).click()
  await expect(admin.getByTestId('predicted')).toContainText('Rate', { timeout: 50_000 })
  await accessible(admin, 'last step')
  await admin.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(admin.getByRole('heading', { name, level: 1 })).toBeVisible()

  const id = Number(/relationships\/(\d+)/.exec(admin.url())?.[1])
  const view = await api<View>('GET', `/api/v1/relationships/${id}`)
  expect(view.relationship).toMatchObject({
    name, owner: 'storage team',
    request: { verb: 'copy', sources: [`${source}/`], target, arguments: ['--compare=digest', '--exclude=*.tmp'] },
    schedule: { cron: '30 2 * * mon', time_zone: 'Asia/Tokyo' },
    limits: { bytes_per_second: 200_000_000 },
    notification: { kinds: expect.arrayContaining(['run_complete', 'run_failed']), mail_to: ['storage@example.org', 'ops@example.org'], webhooks: [{ url: 'https://hooks.example.org/hakobu' }] },
    credentials: [{ kind: 'sealed' }],
  })
  expect(JSON.stringify(view)).not.toContain('not to be seen again')
})

test('a relationship is changed, and a change meanwhile is not overwritten', async ({ admin }) => {
  const name = fresh('changed')
  const made = await relationship(name, '/srv/a', '/srv/b', { request: { verb: 'copy', sources: ['/srv/a/'], target: '/srv/b', arguments: ['--exclude', '*.bak', '--retry-for=10m'] } })
  await goTo(admin, `relationships/${made.id}/edit`)
  await expect(admin.getByLabel('Name')).toHaveValue(name)
  await admin.getByRole('button', { name: 'Options' }).click()
  await expect(admin.getByLabel('Pattern')).toHaveValue('*.bak')
  await expect(admin.getByLabel('Arguments')).toHaveValue('--retry-for=10m')
  await admin.getByLabel('Pattern').fill('*.old')

  const view = await api<View>('GET', `/api/v1/relationships/${made.id}`)
  await api('PUT', `/api/v1/relationships/${made.id}`, { revision: view.revision, relationship: { ...view.relationship, owner: 'somebody else' } })
  await admin.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(admin.getByRole('alert')).toContainText('somebody else has changed')

  await admin.reload()
  await admin.getByRole('button', { name: 'Options' }).click()
  await admin.getByLabel('Pattern').fill('*.old')
  await admin.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(admin.getByRole('heading', { name, level: 1, exact: true })).toBeVisible()
  const after = await api<View>('GET', `/api/v1/relationships/${made.id}`)
  expect(after.relationship.owner).toBe('somebody else')
  expect(after.relationship.request.arguments).toEqual(['--exclude=*.old', '--retry-for=10m'])
})

test('names that are not UTF-8 are browsed and kept', async ({ admin }) => {
  const folder = join(plane().folder, fresh('bytes'))
  mkdirSync(folder)
  mkdirSync(Buffer.concat([Buffer.from(`${folder}/caf`), Buffer.from([0xe9])]))
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Group').fill('local')
  await admin.getByRole('textbox', { name: 'Source' }).fill(folder)
  await admin.getByRole('button', { name: 'Browse: Source' }).click()
  await admin.getByRole('dialog').getByRole('button', { name: /caf/ }).click()
  await expect(admin.getByText('The directory is empty.')).toBeVisible()
  await admin.getByRole('button', { name: 'Choose this directory' }).click()
  await expect(admin.getByRole('textbox', { name: 'Source' })).toHaveAttribute('readonly')
  await admin.getByLabel('Name').fill(fresh('bytes'))
  await admin.getByRole('textbox', { name: 'Target' }).fill(`${folder}/target`)
  for (let step = 0; step < 4; step += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(admin.getByRole('button', { name: 'Start a run' })).toBeVisible()
  const id = Number(/relationships\/(\d+)/.exec(admin.url())?.[1])
  const view = await api<{ relationship: { request: { sources: { base64: string }[] } } }>('GET', `/api/v1/relationships/${id}`)
  const bytes = Buffer.from(view.relationship.request.sources[0]?.base64 ?? '', 'base64')
  expect(bytes.at(-1)).toBe(0xe9)
})

test('a bucket is browsed with credentials that are typed, and with those that are sealed', async ({ admin }) => {
  const store = await bucket()
  const secret = `AWS_ACCESS_KEY_ID=${store.accessKey}\nAWS_SECRET_ACCESS_KEY=${store.secretKey}`
  const name = fresh('from a bucket')
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Name').fill(name)
  await admin.getByLabel('Group').fill('local')
  await admin.getByRole('textbox', { name: 'Source' }).fill('s3://bucket/')
  await admin.getByRole('textbox', { name: 'Target' }).fill(join(plane().folder, fresh('target')))
  await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByText('Object stores').click()
  await admin.getByLabel('Endpoint').fill(store.endpoint)
  await admin.getByLabel('Region').fill('us-east-1')
  await admin.getByRole('button', { name: 'Add credentials' }).click()
  await admin.getByLabel('Kind of credentials').selectOption('Secret, as lines of NAME=VALUE')
  await admin.getByRole('textbox', { name: 'Secret, as lines of NAME=VALUE' }).fill(secret)
  await admin.getByRole('button', { name: 'Locations' }).click()
  const browse = async () => {
    await admin.getByRole('button', { name: 'Browse: Source' }).click()
    await expect(admin.getByRole('dialog').getByRole('button', { name: 'photos' })).toBeVisible()
    await admin.getByRole('button', { name: 'Choose this directory' }).click()
    await admin.getByRole('button', { name: 'Test the connection' }).click()
    await expect(admin.getByTestId('test')).toContainText('reachable; will be created')
    await expect(admin.getByTestId('test')).not.toContainText('✕')
  }
  await browse()
  for (let step = 0; step < 4; step += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(admin.getByRole('heading', { name, level: 1 })).toBeVisible()
  const id = Number(/relationships\/(\d+)/.exec(admin.url())?.[1])
  await goTo(admin, `relationships/${id}/edit`)
  await expect(admin.getByLabel('Name')).toHaveValue(name)
  await browse()
  store.stop()
})

test('a relationship is removed after a question', async ({ admin }) => {
  const name = fresh('to be removed')
  const made = await relationship(name, '/srv/a', '/srv/c')
  await goTo(admin, `relationships/${made.id}`)
  await admin.getByRole('button', { name: 'Remove' }).click()
  const dialog = admin.getByRole('dialog')
  await admin.keyboard.press('Escape')
  await expect(dialog).toHaveCount(0)
  await expect(admin.getByRole('button', { name: 'Remove' })).toBeFocused()
  await admin.getByRole('button', { name: 'Remove' }).click()
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await expect(admin.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
  await expect(api('GET', `/api/v1/relationships/${made.id}`)).rejects.toThrow('404')
})

test('a relationship whose run is under way is not removed, and no other run copies to its target', async ({ admin }) => {
  const source = tree(fresh('busy source'), 300)
  const target = join(plane().folder, fresh('busy target'))
  const [name, other] = [fresh('busy'), fresh('beside')]
  const made = await relationship(name, source, target, { limits: { version: 1, operations_per_second: 2 } })
  const run = await startRun(made.id)
  await goTo(admin, `relationships/${made.id}`)
  await admin.getByRole('button', { name: 'Remove' }).click()
  const dialog = admin.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await expect(dialog.getByRole('alert')).toContainText(`run ${run} of this relationship is under way`)
  await admin.keyboard.press('Escape')

  const beside = await relationship(other, source, `${target}/below`)
  await goTo(admin, `relationships/${beside.id}`)
  await admin.getByRole('button', { name: 'Start a run' }).click()
  await expect(admin.getByText(`run ${run} of the relationship "${name}" copies to this target`)).toBeVisible()
  await api('POST', `/api/v1/runs/${run}/cancel`)
})

test('a group without a broker is told of, before and while a run waits for one', async ({ admin }) => {
  const group = `nobody-${Date.now().toString(36)}`
  const name = fresh('waiting')
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Name').fill(name)
  await admin.getByLabel('Group').fill('local')
  await expect(admin.getByText(/^No broker of the group/)).toHaveCount(0)
  await admin.getByLabel('Group').fill(group)
  await expect(admin.getByText(`No broker of the group ${group} is connected.`)).toBeVisible()
  await admin.getByRole('textbox', { name: 'Source' }).fill('/srv/a/')
  await admin.getByRole('textbox', { name: 'Target' }).fill(`/srv/${group}`)
  for (let step = 0; step < 4; step += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByRole('button', { name: 'Save and start' }).click()
  await expect(admin.getByTestId('waiting')).toHaveText(`Waiting for a broker of the group ${group}: none is connected.`)
  await accessible(admin, 'waiting')
  await admin.getByRole('button', { name: 'Cancel the run' }).click()
  await admin.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await expect(admin.getByTestId('waiting')).toHaveCount(0)
})

test('a prediction names what would keep a copy from working', async ({ admin }) => {
  const source = tree(fresh('predicted'), 5)
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Name').fill(fresh('predicted'))
  await admin.getByLabel('Group').fill('local')
  await admin.getByRole('textbox', { name: 'Source' }).fill(`${source}/`)
  await admin.getByRole('textbox', { name: 'Target' }).fill(`${source} missing/below`)
  for (let step = 0; step < 4; step += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByRole('button', { name: 'Predict' }).click()
  await expect(admin.getByTestId('predicted')).toContainText('Rate', { timeout: 50_000 })
  await expect(admin.getByText('its parent directory does not exist; create it first')).toBeVisible()
})

test('a location that no broker of the group reaches is told of', async ({ admin }) => {
  const group = { name: 'site', brokers: 1, brokers_away: 0, slots: 1, units: 0, runs: 0, relationships: 0, limits: null, reaches: ['/mnt/nas'], reaches_everything: false }
  await admin.route('**/api/v1/groups', (route) => route.fulfill({ json: { items: [group], next: null, total: 1 } }))
  await admin.route('**/api/v1/groups/site/reach', (route) => {
    const { sources, target } = route.request().postDataJSON() as { sources: string[]; target: string }
    const unreached = [...sources, target].filter((location) => !location.startsWith('/mnt/nas'))
    return route.fulfill({ json: { brokers: 1, reaching: unreached.length === 0 ? 1 : 0, unreached } })
  })
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Group').fill('site')
  await admin.getByRole('textbox', { name: 'Source' }).fill('/mnt/nas/a/')
  await admin.getByRole('textbox', { name: 'Target' }).fill('/mnt/tape/b')
  await expect(admin.getByText('No broker of the group site that is connected reaches /mnt/tape/b.')).toBeVisible()
  await accessible(admin, 'unreached')
  await admin.getByRole('textbox', { name: 'Target' }).fill('/mnt/nas/b')
  await expect(admin.getByText('No broker of the group site')).toHaveCount(0)
})

test('a sync needs the consent to remove what only the target has', async ({ admin }) => {
  const source = tree(fresh('sync source'), 20)
  const target = tree(fresh('sync target'), 15)
  writeFileSync(join(target, 'only here'), 'extra')
  const name = fresh('sync')
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Name').fill(name)
  await admin.getByLabel('Group').fill('local')
  await admin.getByRole('textbox', { name: 'Source' }).fill(`${source}/`)
  await admin.getByRole('textbox', { name: 'Target' }).fill(target)
  const consent = admin.getByRole('checkbox', { name: 'Remove what only the target has' })
  await expect(consent).toHaveCount(0)
  await admin.getByRole('radio', { name: /^Sync/ }).check()
  await expect(admin.getByText('A sync needs this consent')).toBeVisible()
  await accessible(admin, 'consent')
  await admin.getByRole('button', { name: 'Next' }).click()
  await expect(admin.getByRole('alert').first()).toContainText('nobody can be asked during a run')
  await expect(admin.getByRole('alert').first()).toContainText('add --delete')
  await consent.check()
  await admin.getByLabel('Delete at most').fill('1')
  for (let step = 0; step < 4; step += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await expect(admin.getByText(/hakobu sync --delete --max-delete=1 /)).toBeVisible()
  await admin.getByRole('button', { name: 'Save and start' }).click()
  await expect(admin.getByText('Complete', { exact: true })).toBeVisible({ timeout: 30_000 })
  expect(existsSync(join(target, 'only here'))).toBe(false)

  // The consent is read back.
  await admin.getByRole('link', { name }).click()
  await admin.getByRole('link', { name: 'Change' }).click()
  await expect(consent).toBeChecked()
  await expect(admin.getByLabel('Delete at most')).toHaveValue('1')
})

test('a preview shows the error of a source that is not there, and nothing is shown of an earlier command', async ({ admin }) => {
  test.setTimeout(120_000)
  const source = tree(fresh('previewed source'), 12)
  await goTo(admin, 'relationships/new')
  await admin.getByLabel('Name').fill(fresh('previewed'))
  await admin.getByLabel('Group').fill('local')
  await admin.getByRole('textbox', { name: 'Source' }).fill(`${source} gone/`)
  await admin.getByRole('textbox', { name: 'Target' }).fill(join(plane().folder, fresh('previewed target')))
  const tried = admin.getByTestId('test')
  await admin.getByRole('button', { name: 'Test the connection' }).click()
  await expect(tried).toContainText('✕')
  const outdated = admin.getByText('The command was changed since.')
  const step = async (title: string) => {
    await admin.getByRole('button', { name: title }).click()
    await expect(admin.getByRole('heading', { name: title, level: 2 })).toBeVisible()
  }
  for (let next = 0; next < 4; next += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByRole('button', { name: 'Run the preview' }).click()
  await expect(admin.getByRole('alert').filter({ hasText: 'no such file or directory' })).toBeVisible({ timeout: 30_000 })
  await expect(admin.getByTestId('planned')).toHaveCount(0)
  await expect(outdated).toHaveCount(0)

  // Another source: neither the error nor the test is about it.
  await step('Locations')
  await expect(tried).toContainText('✕')
  await admin.getByRole('textbox', { name: 'Source' }).fill(`${source}/`)
  await expect(tried).toHaveCount(0)
  await expect(outdated).toBeVisible()
  await admin.getByRole('button', { name: 'Test the connection' }).click()
  await expect(tried).not.toContainText('✕')
  await expect(outdated).toHaveCount(0)
  for (let next = 0; next < 4; next += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await expect(outdated).toBeVisible()
  await expect(admin.getByRole('alert').filter({ hasText: 'no such file or directory' })).toHaveCount(0)
  await admin.getByRole('button', { name: 'Run the preview' }).click()
  await expect(admin.getByTestId('planned')).toContainText('Created14', { timeout: 30_000 })

  // Other options: the counts go.
  await step('Options')
  await admin.getByRole('button', { name: 'Add a rule' }).click()
  await admin.getByLabel('Pattern').fill('f1*')
  for (let next = 0; next < 3; next += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await expect(admin.getByTestId('planned')).toHaveCount(0)
  await expect(outdated).toBeVisible()
})

test('a preview of a sync counts what would be deleted', async ({ admin }) => {
  const source = tree(fresh('synchronised source'), 6)
  const target = tree(fresh('synchronised target'), 10)
  await admin.getByRole('link', { name: 'New relationship' }).click()
  await admin.getByLabel('Name').fill(fresh('previewed sync'))
  await admin.getByLabel('Group').fill('local')
  await admin.getByRole('radio', { name: /^Sync/ }).check()
  await admin.getByRole('checkbox', { name: 'Remove what only the target has' }).check()
  await admin.getByRole('textbox', { name: 'Source' }).fill(`${source}/`)
  await admin.getByRole('textbox', { name: 'Target' }).fill(target)
  for (let next = 0; next < 4; next += 1) await admin.getByRole('button', { name: 'Next' }).click()
  await admin.getByRole('button', { name: 'Run the preview' }).click()
  await expect(admin.getByTestId('planned')).toContainText('Deleted4', { timeout: 30_000 })
})
