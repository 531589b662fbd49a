// Package redact takes the secrets out of the URLs of settings, which logs, errors and
// pages show.
package redact

import "strings"

// hidden stands in the place of a secret.
const hidden = "xxxxx"

// secretWords are in the names of parameters that hold a secret.
var secretWords = []string{"pass", "pwd", "secret", "token", "key", "auth", "cred", "sig"}

// URL returns a URL, or several with commas between them, without what is before its hosts
// and the values of parameters that may be secret. It need not be one that package net/url
// takes: it may name several hosts, have no scheme, or be wrong, which is when it is shown.
// What cannot be told from a password is hidden with it.
func URL(text string) string {
	var urls []string
	for part := range strings.SplitSeq(text, ",") {
		if n := len(urls); n > 0 && schemeOf(part) == "" {
			urls[n-1] += "," + part // another host, or the rest of a password
		} else {
			urls = append(urls, part)
		}
	}
	for i := range urls {
		urls[i] = one(urls[i])
	}
	return strings.Join(urls, ",")
}

func one(text string) string {
	prefix := schemeOf(text)
	text = text[len(prefix):]
	// A password may hold whatever nobody has escaped.
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		text = hidden + text[at:]
	}
	base, query, asks := strings.Cut(text, "?")
	if !asks {
		return prefix + base
	}
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if name, _, ok := strings.Cut(p, "="); !ok {
			parts[i] = hidden
		} else if isSecret(name) {
			parts[i] = name + "=" + hidden
		}
	}
	return prefix + base + "?" + strings.Join(parts, "&")
}

// schemeOf returns the scheme that text begins with, and what follows it; "" for none.
func schemeOf(text string) string {
	scheme, _, ok := strings.Cut(text, "://")
	if !ok || scheme == "" || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+") != "" {
		return ""
	}
	return scheme + "://"
}

func isSecret(parameter string) bool {
	parameter = strings.ToLower(parameter)
	for _, w := range secretWords {
		if strings.Contains(parameter, w) {
			return true
		}
	}
	return false
}
