package offline

// joins adds next to the moment before it: as its other half, or as its end.
func (m *moment) joins(c clause, next *moment) bool {
	gap := next.from - m.to
	if m.unclear != "" || next.unclear != "" || gap > 1 || gap == 1 && !c.at(m.to).is(",", "and", "to", "-", "–") {
		return false
	}
	between := gap == 1 && c.at(m.to).is("and") && m.lead == "between"
	spans := next.lead == "to" && (m.lead == "from" || m.lead == "between") || next.lead == "until" || next.lead == "till" || between ||
		gap == 1 && c.at(m.to).is("to", "–", "-")
	if spans && m.until == nil {
		end := *next
		if !m.hasDay && end.hasDay && end.hasClock {
			m.day, m.hasDay = end.day, true
		} else if !end.hasDay {
			end.day, end.hasDay = m.day, m.hasDay
		}
		m.until, m.to = &end, next.to
		return true
	}
	if gap == 1 && !c.at(m.to).is(",") {
		return false
	}
	switch {
	case m.exact || next.exact || m.until != nil && !(m.hasClock && !m.hasDay):
		return false
	case m.hasDay && !m.hasClock && next.hasClock && !next.hasDay && next.lead != "by":
		m.clock, m.hasClock, m.until, m.to = next.clock, true, next.until, next.to
	case m.hasClock && !m.hasDay && next.hasDay && !next.hasClock:
		m.day, m.hasDay, m.to = next.day, true, next.to
	default:
		return false
	}
	if m.until != nil && !m.until.hasDay {
		m.until.day, m.until.hasDay = m.day, m.hasDay
	}
	return true
}
