import { defineConfig } from '@playwright/test'

// The control plane is a real one, which tests/server.ts starts: HAKOBU_PROGRAM names another program, CHROMIUM another browser.
export default defineConfig({
  testDir: 'tests',
  globalSetup: './tests/setup.ts',
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'line',
  projects: [
    { name: 'tests', testIgnore: /pictures/ },
    { name: 'pictures', testMatch: /pictures/ },
  ],
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] },
  },
})
