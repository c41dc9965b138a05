// A long list that the server gives in pages. Only pages near what is shown are kept; the others are asked for again by the
// place where they begin.

export interface Page<T> {
  items: T[]
  next?: string | null
  total?: number | null
}

export type PageLoader<T> = (after: string | undefined, limit: number) => Promise<Page<T>>

interface Chunk<T> {
  after: string | undefined
  start: number
  count: number
  items: T[] | undefined
}

const PAGE_ITEMS = 500
const CHUNKS_KEPT = 24

export class PagedList<T> {
  /** The number of items that are known to exist from the beginning without a gap. */
  reached = $state(0)
  total = $state<number | undefined>()
  isComplete = $state(false)
  isLoading = $state(false)
  error = $state<unknown>()
  /** Raised whenever items change. */
  version = $state(0)

  private chunks: Chunk<T>[] = []
  private next: string | undefined
  private wanted = -1
  private isEnded = false
  private readonly load: PageLoader<T>

  constructor(load: PageLoader<T>) {
    this.load = load
    this.want(0, 0)
  }

  /** The number of rows to make room for. */
  get length(): number {
    if (this.isComplete) return this.reached
    return Math.max(this.total ?? 0, this.reached)
  }

  /** No answer matters any more. */
  end(): void {
    this.isEnded = true
  }

  at(index: number): T | undefined {
    void this.version
    const chunk = this.chunkAt(index)
    return chunk?.items?.[index - chunk.start]
  }

  /** Makes sure that rows are or will be there. */
  want(first: number, last: number): void {
    this.wanted = Math.max(last, 0)
    const lost = this.chunks.find((chunk) => chunk.items === undefined && chunk.start <= last && first < chunk.start + chunk.count)
    const goesOn = !this.isComplete && last >= this.reached
    if (!this.isLoading && (lost !== undefined || goesOn || this.chunks.length === 0) && this.error === undefined) {
      void this.run(first, lost)
    }
  }

  retry(): void {
    this.error = undefined
    this.want(this.wanted, this.wanted)
  }

  /** Asks again for the pages that have these rows. */
  async refresh(first: number, last: number): Promise<void> {
    if (this.isLoading || this.error !== undefined) return
    // An empty page may have rows now.
    const shown = this.chunks.filter((chunk) => chunk.start <= Math.max(last, 0) && (first < chunk.start + chunk.count || chunk.count === 0))
    for (const chunk of shown) {
      try {
        const page = await this.load(chunk.after, PAGE_ITEMS)
        if (this.isEnded || !this.chunks.includes(chunk)) return
        const isLast = chunk === this.chunks.at(-1)
        if (isLast || page.items.length === chunk.count) {
          chunk.items = page.items
          if (isLast) this.append(chunk, page)
          this.total = page.total ?? this.total
          this.version += 1
        } else {
          // Rows came or went: everything behind them has moved.
          this.cut(chunk, page)
        }
      } catch {
        // The next event asks again.
        return
      }
    }
  }

  private cut(chunk: Chunk<T>, page: Page<T>): void {
    this.chunks.length = this.chunks.indexOf(chunk) + 1
    chunk.items = page.items
    this.append(chunk, page)
    this.total = page.total ?? this.total
    this.version += 1
  }

  private append(chunk: Chunk<T>, page: Page<T>): void {
    chunk.count = page.items.length
    this.next = page.next ?? undefined
    this.isComplete = this.next === undefined
    this.reached = chunk.start + chunk.count
  }

  private async run(first: number, lost: Chunk<T> | undefined): Promise<void> {
    this.isLoading = true
    try {
      let again = lost
      do {
        const chunk = again ?? { after: this.next, start: this.reached, count: 0, items: undefined }
        const page = await this.load(chunk.after, PAGE_ITEMS)
        if (this.isEnded) return
        chunk.items = page.items
        if (again === undefined) {
          this.chunks.push(chunk)
          this.append(chunk, page)
        }
        if (page.total !== undefined && page.total !== null) this.total = page.total
        this.forget(Math.max(first, 0))
        this.version += 1
        again = undefined
      } while (!this.isComplete && this.wanted >= this.reached)
    } catch (error) {
      this.error = error
    } finally {
      this.isLoading = false
    }
  }

  /** Forgets the items of pages that are far away. */
  private forget(first: number): void {
    const kept = this.chunks.filter((chunk) => chunk.items !== undefined)
    if (kept.length <= CHUNKS_KEPT) return
    const distance = (chunk: Chunk<T>) => Math.min(Math.abs(chunk.start - this.wanted), Math.abs(chunk.start - first))
    kept.sort((one, other) => distance(other) - distance(one))
    for (const chunk of kept.slice(0, kept.length - CHUNKS_KEPT)) chunk.items = undefined
  }

  private chunkAt(index: number): Chunk<T> | undefined {
    let low = 0
    let high = this.chunks.length - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      const chunk = this.chunks[middle]
      if (chunk === undefined || index < chunk.start) high = middle - 1
      else if (index >= chunk.start + chunk.count) low = middle + 1
      else return chunk
    }
    return undefined
  }
}
