package httpapi

// isRFC3339 reports whether s is a date and time as RFC 3339 §5.6 writes it,
// on a day that exists. A leap second is accepted wherever one could be.
func isRFC3339(s string) bool {
	// 2023-07-13T07:20:50.52Z
	if len(s) < len("2006-01-02T15:04:05Z") ||
		s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return false
	}
	year, ok1 := digits(s[0:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	hour, ok4 := digits(s[11:13])
	minute, ok5 := digits(s[14:16])
	second, ok6 := digits(s[17:19])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) {
		return false
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(month, year) || hour > 23 || minute > 59 || second > 60 {
		return false
	}
	s = s[19:]
	if s[0] == '.' {
		n := 1
		for n < len(s) && s[n]-'0' < 10 {
			n++
		}
		if n == 1 {
			return false
		}
		s = s[n:]
	}
	if len(s) == 1 {
		return s[0]|0x20 == 'z'
	}
	if len(s) != len("+00:00") || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return false
	}
	hour, ok1 = digits(s[1:3])
	minute, ok2 = digits(s[4:6])
	return ok1 && ok2 && hour <= 23 && minute <= 59
}

// digits returns the number that s is.
func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int(d)
	}
	return n, true
}

func daysIn(month, year int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
