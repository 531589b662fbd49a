// Package accesslog reads the access logs of web servers and proxies, line by
// line, without allocating.
//
// It knows the common and combined formats (nginx, Apache, Traefik), the default
// text formats of Envoy and of Istio's proxies, and one JSON object a line, in
// whose fields it finds its way for Caddy, Traefik, Envoy and nginx.
package accesslog
