// Settings that the browser keeps. A browser may forbid it: then they last as long as the page.

export function kept(key: string): string | null {
  try {
    return localStorage.getItem(`hakobu.${key}`)
  } catch {
    return null
  }
}

export function keep(key: string, value: string): void {
  try {
    localStorage.setItem(`hakobu.${key}`, value)
  } catch {
    // It lasts as long as the page.
  }
}
