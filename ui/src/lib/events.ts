// The stream of events, and the names of those that the page listens to.

export const EVENTS = '/api/v1/events'
export const EVENT_NAMES = ['run', 'broker', 'relationship', 'errand', 'status', 'reset']
