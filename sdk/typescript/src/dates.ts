import { maps, times } from './generated/dates.js'

/** Replaces the times in a response by dates, in place. Fields that callers choose stay as they are. */
export function withDates(value: unknown): unknown {
    if (Array.isArray(value)) {
        value.forEach(withDates)
    } else if (value && typeof value === 'object') {
        const fields = value as Record<string, unknown>
        for (const [name, field] of Object.entries(fields)) {
            if (typeof field === 'string') {
                if (times.has(name)) fields[name] = new Date(field)
            } else if (!maps.has(name)) {
                withDates(field)
            }
        }
    }
    return value
}
